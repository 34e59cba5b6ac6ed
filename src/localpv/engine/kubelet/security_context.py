"""As whom a container runs and what it may do: users of its image, groups, capabilities."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from localpv.api.kinds.containers import Container, SecurityContext
from localpv.api.kinds.pods import Pod, PodSecurityContext
from localpv.engine.kubelet.events import BadConfig

DEFAULT_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "FSETID", "FOWNER", "MKNOD", "NET_RAW", "SETGID", "SETUID", "SETFCAP", "SETPCAP"),
    *("NET_BIND_SERVICE", "SYS_CHROOT", "KILL", "AUDIT_WRITE"),
)
"""What container runtimes leave to root inside a container."""

ALL_CAPABILITIES = (
    *("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER", "FSETID", "KILL", "SETGID", "SETUID", "SETPCAP"),
    *("LINUX_IMMUTABLE", "NET_BIND_SERVICE", "NET_BROADCAST", "NET_ADMIN", "NET_RAW", "IPC_LOCK", "IPC_OWNER"),
    *("SYS_MODULE", "SYS_RAWIO", "SYS_CHROOT", "SYS_PTRACE", "SYS_PACCT", "SYS_ADMIN", "SYS_BOOT", "SYS_NICE"),
    *("SYS_RESOURCE", "SYS_TIME", "SYS_TTY_CONFIG", "MKNOD", "LEASE", "AUDIT_WRITE", "AUDIT_CONTROL", "SETFCAP"),
    *("MAC_OVERRIDE", "MAC_ADMIN", "SYSLOG", "WAKE_ALARM", "BLOCK_SUSPEND", "AUDIT_READ", "PERFMON", "BPF"),
    "CHECKPOINT_RESTORE",
)
"""In the order of their numbers in the kernel."""

STRICT = "Strict"
"""supplementalGroupsPolicy: only the groups that the pod names, none of the image's /etc/group."""

_MOST_LINES = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class User:
    """Numbers, as the kernel wants them."""

    uid: int
    gid: int
    groups: tuple[int, ...] = ()


def user_of(pod: Pod, container: Container, *, image_user: str, root: Path) -> User:
    """Who runs the container: its own word, the pod's, or the image's; `root` is the unpacked image."""
    own = container.security_context or SecurityContext()
    whole = pod.spec.security_context or PodSecurityContext()
    wanted = own.run_as_user if own.run_as_user is not None else whole.run_as_user
    group = own.run_as_group if own.run_as_group is not None else whole.run_as_group
    accounts = _Accounts(root)
    name, _, group_name = image_user.partition(":")
    if wanted is not None:
        uid, gid = wanted, accounts.group_of_user(wanted)
        name = accounts.name_of(wanted)
    elif name:
        uid, gid = accounts.user(name)
        if group_name:
            gid = accounts.group(group_name)
        name = accounts.name_of(uid) if name.isdecimal() else name
    else:
        uid, gid, name = 0, 0, "root"
    if group is not None:
        gid = group
    _refuse_root(pod, container, uid, named=bool(image_user) and wanted is None and not image_user[0].isdigit())
    groups = [*whole.supplemental_groups, *([whole.fs_group] if whole.fs_group is not None else [])]
    if whole.supplemental_groups_policy != STRICT:
        groups += accounts.groups_with(name) if name else []
    return User(uid=uid, gid=gid, groups=tuple(dict.fromkeys(one for one in groups if one != gid)))


def _refuse_root(pod: Pod, container: Container, uid: int, *, named: bool) -> None:
    own = container.security_context
    not_root = own.run_as_non_root if own is not None else None
    if not_root is None and pod.spec.security_context is not None:
        not_root = pod.spec.security_context.run_as_non_root
    if not not_root:
        return
    if uid == 0:
        said = own is not None and own.run_as_user == 0
        why = (
            "container's runAsUser breaks non-root policy"
            if said
            else "container has runAsNonRoot and image will run as root"
        )
        raise BadConfig(why, hint="set securityContext.runAsUser to a number other than 0")
    if named:
        raise BadConfig(
            "container has runAsNonRoot and image has a non-numeric user, cannot verify that it is not root",
            hint="set securityContext.runAsUser",
        )


def capabilities(security: SecurityContext | None) -> tuple[str, ...]:
    """What the container may do, as far as we may ourselves."""
    held = _held()
    if security is None:
        chosen = {*DEFAULT_CAPABILITIES}
    elif security.privileged:
        chosen = {*ALL_CAPABILITIES}
    else:
        added = {_plain(name) for name in security.capabilities.add}
        dropped = {_plain(name) for name in security.capabilities.drop}
        chosen = {*ALL_CAPABILITIES} if "ALL" in added else {*DEFAULT_CAPABILITIES}
        if "ALL" in dropped:
            chosen = set()
        chosen = (chosen - dropped) | (added - {"ALL"})
        if unknown := chosen - {*ALL_CAPABILITIES}:
            raise BadConfig(f"unknown capability {', '.join(sorted(unknown))}")
    return tuple(f"CAP_{name}" for name in ALL_CAPABILITIES if name in chosen and name in held)


def _plain(name: str) -> str:
    return name.upper().removeprefix("CAP_")


def _held() -> frozenset[str]:
    """The capabilities that this process can pass on."""
    found = re.search(r"^CapBnd:\s*([0-9a-f]+)$", Path("/proc/self/status").read_text(), re.MULTILINE)
    bits = int(found[1], 16) if found else 0
    return frozenset(name for number, name in enumerate(ALL_CAPABILITIES) if bits >> number & 1)


class _Accounts:
    """/etc/passwd and /etc/group of an image, which may say anything: read as data, never through a link."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def user(self, name: str) -> tuple[int, int]:
        for fields in self._lines("passwd"):
            if len(fields) > 3 and fields[0] == name:
                return _number(fields[2]), _number(fields[3])
        if name.isdecimal():
            return int(name), self.group_of_user(int(name))
        raise BadConfig(f"unable to find user {name} in the image: no matching entries in passwd file")

    def group_of_user(self, uid: int) -> int:
        return next((_number(f[3]) for f in self._lines("passwd") if len(f) > 3 and f[2] == str(uid)), 0)

    def name_of(self, uid: int) -> str:
        return next((f[0] for f in self._lines("passwd") if len(f) > 3 and f[2] == str(uid)), "")

    def group(self, name: str) -> int:
        found = next((f for f in self._lines("group") if len(f) > 2 and f[0] == name), None)
        if found is not None:
            return _number(found[2])
        if name.isdecimal():
            return int(name)
        raise BadConfig(f"unable to find group {name} in the image: no matching entries in group file")

    def groups_with(self, user: str) -> list[int]:
        return [_number(f[2]) for f in self._lines("group") if len(f) > 3 and user in f[3].split(",")]

    def _lines(self, name: str) -> Iterator[list[str]]:
        try:
            folder = os.open(self._root / "etc", os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            return
        try:
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            return
        finally:
            os.close(folder)
        with open(fd, errors="replace") as file:
            if not stat.S_ISREG(os.fstat(fd).st_mode):
                return
            for number, line in enumerate(file):
                if number >= _MOST_LINES:
                    return
                yield line.rstrip("\n").split(":")


def _number(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise BadConfig(f'the image has an account with the number "{text}"') from None
