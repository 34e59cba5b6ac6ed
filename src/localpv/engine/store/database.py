"""The log of revisions in SQLite.

Used by one thread at a time: by the opener until loading is done, by the writer thread from then on.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path

from localpv.errors import StoreDamaged, StoreError, StoreFull

FORMAT = 1
_APPLICATION_ID = 0x6C70_7631  # "lpv1"

LogRow = tuple[int, str, str, int, bytes]
"""revision, prefix, key, change, value"""


@contextlib.contextmanager
def _translated(path: Path) -> Iterator[None]:
    try:
        yield
    except sqlite3.DatabaseError as error:
        code = getattr(error, "sqlite_errorname", "") or ""
        if code.startswith("SQLITE_FULL"):
            raise StoreFull(
                f"no room left on the disk of {path.parent}: the write was refused and nothing is lost",
                hint="free some space on that file system and try again",
            ) from error
        if code.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB")):
            raise StoreDamaged(
                f"the database {path} is damaged ({error})",
                hint=f"nothing was changed; restore {path.name} from a backup, or move it away to start empty",
            ) from error
        raise StoreError(
            f"the database {path} cannot be used: {error}", hint="see the log; nothing was lost"
        ) from error


class Database:
    """Append-only log; compaction removes what a newer revision has superseded."""

    def __init__(self, path: Path, *, durable: bool = True) -> None:
        self.path = path
        self._durable = durable
        self._connection: sqlite3.Connection | None = None

    def open(self) -> None:
        with _translated(self.path):
            self._close_to_others()
            connection = sqlite3.connect(self.path, isolation_level=None, check_same_thread=False)
            self._connection = connection
            connection.execute("PRAGMA busy_timeout = 2000")
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute(f"PRAGMA synchronous = {'FULL' if self._durable else 'OFF'}")
            connection.execute("PRAGMA cache_size = -1024")  # the state is in memory already
            connection.execute("PRAGMA wal_autocheckpoint = 4000")
            (version,) = connection.execute("PRAGMA user_version").fetchone()
            if version > FORMAT:
                raise StoreError(
                    f"the database {self.path} has format {version}; this localpv knows formats up to {FORMAT}",
                    hint="use the newer localpv that wrote it",
                )
            if version == 0:
                self._create(connection)

    def _close_to_others(self) -> None:
        """Secrets are in the files, and the folder may be one that somebody else made, open to all. SQLite gives the
        files beside the database the rights of the database."""
        with contextlib.suppress(OSError):  # what SQLite cannot open it tells better
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o600))
        for suffix in ("", "-wal", "-shm"):
            with contextlib.suppress(OSError):
                os.chmod(f"{self.path}{suffix}", 0o600)

    def _create(self, connection: sqlite3.Connection) -> None:
        connection.execute("BEGIN")
        connection.execute(
            "CREATE TABLE IF NOT EXISTS log (revision INTEGER PRIMARY KEY, prefix TEXT NOT NULL, key TEXT NOT NULL,"
            " change INTEGER NOT NULL, value BLOB NOT NULL)"
        )
        connection.execute("CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value TEXT NOT NULL)")
        connection.execute(f"PRAGMA user_version = {FORMAT}")
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute("COMMIT")

    def load(self) -> Iterator[LogRow]:
        """Every revision that is left, oldest first."""
        with _translated(self.path):
            (verdict,) = self._db.execute("PRAGMA quick_check(1)").fetchone()
            if verdict != "ok":
                raise StoreDamaged(
                    f"the database {self.path} is damaged ({verdict.splitlines()[0]})",
                    hint=f"nothing was changed; restore {self.path.name} from a backup, or move it away to start empty",
                )
            yield from self._db.execute("SELECT revision, prefix, key, change, value FROM log ORDER BY revision")

    def compacted(self) -> int:
        """The newest revision whose history may have been removed."""
        with _translated(self.path):
            row = self._db.execute("SELECT value FROM facts WHERE name = 'compacted'").fetchone()
            return int(row[0]) if row else 0

    def append(self, rows: Sequence[LogRow]) -> None:
        """All of the rows or none of them; on disk when this returns."""
        with _translated(self.path):
            try:
                self._db.execute("BEGIN")
                self._db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?)", rows)
                self._db.execute("COMMIT")
            except sqlite3.DatabaseError:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def compact(self, revision: int) -> None:
        """Forget what happened up to a revision; the objects as they were then stay.

        The mark and the deletion are one transaction: a crash leaves the old log or the new one.
        """
        with _translated(self.path):
            try:
                self._db.execute("BEGIN")
                self._db.execute("INSERT OR REPLACE INTO facts VALUES ('compacted', ?)", (str(revision),))
                self._db.execute(
                    "DELETE FROM log WHERE revision <= ?1 AND (change = 2 OR revision NOT IN"
                    " (SELECT max(revision) FROM log WHERE revision <= ?1 GROUP BY prefix, key))",
                    (revision,),
                )
                self._db.execute("COMMIT")
            except sqlite3.DatabaseError:
                if self._db.in_transaction:
                    self._db.execute("ROLLBACK")
                raise

    def close(self) -> None:
        if self._connection is not None:
            with contextlib.suppress(sqlite3.DatabaseError):
                self._connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            self._connection.close()
            self._connection = None

    @property
    def _db(self) -> sqlite3.Connection:
        if self._connection is None:
            raise StoreError(f"the database {self.path} is closed")
        return self._connection
