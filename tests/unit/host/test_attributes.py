"""What a directory must be for the next one who has it, on a made-up directory that can have everything."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable
from types import SimpleNamespace

import pytest

from localpv import errors
from localpv.host import attributes
from localpv.host.attributes import ACCESS, DEFAULT, FILE_SYSTEM_TOP, Attributes, Extended

IMMUTABLE, APPEND_ONLY, NO_DUMP, TOP, INDEXED = 0x10, 0x20, 0x40, 0x20000, 0x1000
GET_FLAGS, SET_FLAGS, GET_XFLAGS, SET_XFLAGS = 0x80086601, 0x40086602, 0x801C581F, 0x401C5820
XFLAGS = struct.Struct("=IIIII8x")
SELF, PARENT = 3, 4
ACL = b"a list"


class Directory:
    """One directory as the kernel has it."""

    def __init__(self) -> None:
        self.mode, self.uid, self.gid = 0o755, 0, 0
        self.attributes: dict[str, bytes] = {}
        self.flags: int | None = 0
        self.extended: tuple[int, int, int, int] | None = (0, 0, 0, 0)
        self.mount = 1


class Kernel:
    """Takes the place of `os` and `fcntl` in the module."""

    O_RDONLY = O_DIRECTORY = O_CLOEXEC = 0

    def __init__(self) -> None:
        self.own, self.parent = Directory(), Directory()
        self.open_now: set[int] = set()
        self.refuses: Callable[[str, object], int] = lambda call, what: 0
        """Which error a call is answered with."""

    def _of(self, fd: int) -> Directory:
        return self.own if fd == SELF else self.parent

    def _change(self, fd: int, call: str, what: object = None) -> Directory:
        directory = self._of(fd)
        pinned = (directory.flags or 0) & (IMMUTABLE | APPEND_ONLY)
        code = errno.EPERM if pinned and call != "flags" else self.refuses(call, what)
        if code:
            raise OSError(code, os.strerror(code))
        return directory

    def open(self, path: str, flags: int, *, dir_fd: int) -> int:
        assert (path, dir_fd) == ("..", SELF)
        self.open_now.add(PARENT)
        return PARENT

    def close(self, fd: int) -> None:
        self.open_now.remove(fd)

    def fstat(self, fd: int) -> SimpleNamespace:
        found = self._of(fd)
        return SimpleNamespace(st_mode=stat.S_IFDIR | found.mode, st_uid=found.uid, st_gid=found.gid)

    def fchown(self, fd: int, uid: int, gid: int) -> None:
        found = self._change(fd, "owner")
        found.uid, found.gid = uid, gid

    def fchmod(self, fd: int, mode: int) -> None:
        self._change(fd, "mode").mode = mode

    def listxattr(self, fd: int) -> list[str]:
        return [*self._of(fd).attributes]

    def getxattr(self, fd: int, name: str) -> bytes:
        try:
            return self._of(fd).attributes[name]
        except KeyError:
            raise OSError(errno.ENODATA, "no") from None

    def setxattr(self, fd: int, name: str, value: bytes) -> None:
        self._change(fd, "set", name).attributes[name] = value

    def removexattr(self, fd: int, name: str) -> None:
        del self._change(fd, "remove", name).attributes[name]

    def ioctl(self, fd: int, request: int, argument: bytes) -> bytes:
        found = self._of(fd)
        if request in (GET_FLAGS, SET_FLAGS) and found.flags is not None:
            if request == GET_FLAGS:
                assert len(argument) == 4
                return struct.pack("I", found.flags)
            (flags,) = struct.unpack("I", argument)
            self._change(fd, "flags", flags)
            found.flags = flags
            return argument
        if request in (GET_XFLAGS, SET_XFLAGS) and found.extended is not None:
            if request == GET_XFLAGS:
                assert len(argument) == XFLAGS.size
                xflags, extent, project, cow = found.extended
                return XFLAGS.pack(xflags, extent, 77, project, cow)
            xflags, extent, count, project, cow = XFLAGS.unpack(argument)
            assert count == 0
            self._change(fd, "xflags", xflags)
            found.extended = (xflags, extent, project, cow)
            return argument
        raise OSError(errno.ENOTTY, "no")


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Kernel:
    made = Kernel()
    monkeypatch.setattr(attributes, "os", made)
    monkeypatch.setattr(attributes, "fcntl", made)
    monkeypatch.setattr(attributes, "openat", SimpleNamespace(mount_id=lambda fd: made._of(fd).mount))
    return made


def of_a_tenant(directory: Directory) -> None:
    directory.mode, directory.uid, directory.gid = 0o6777, 1000, 1001
    directory.attributes |= {
        ACCESS: b"theirs",
        DEFAULT: b"theirs",
        "user.note": b"hello",
        "trusted.localpv.volume": b"mark",
        "security.selinux": b"label",
        "security.capability": b"x",
    }
    directory.flags = IMMUTABLE | APPEND_ONLY | NO_DUMP | TOP | INDEXED
    directory.extended = (0x8 | 0x10 | 0x200 | 0x80000000, 5, 6, 7)


def test_nothing_of_a_tenant_stays(kernel: Kernel) -> None:
    of_a_tenant(kernel.own)
    attributes.restore(SELF, FILE_SYSTEM_TOP)
    found = kernel.own
    assert (found.mode, found.uid, found.gid, found.flags) == (0o755, 0, 0, INDEXED)
    assert found.attributes == {"security.selinux": b"label"}
    assert found.extended == (0, 0, 0, 0)


def test_directory_gets_what_its_parent_hands_on(kernel: Kernel) -> None:
    of_a_tenant(kernel.own)
    wanted = Attributes(
        mode=0o2755, group=50, acl=ACL, flags=NO_DUMP, extended=Extended(0x200 | 0x1000, extent_size=8, project=9)
    )
    attributes.restore(SELF, wanted)
    found = kernel.own
    assert (found.mode, found.uid, found.gid, found.flags) == (0o2755, 0, 50, INDEXED | NO_DUMP)
    assert found.attributes == {ACCESS: ACL, DEFAULT: ACL, "security.selinux": b"label"}
    assert found.extended == (0x1200, 8, 9, 0)


def test_file_system_that_has_none_of_it_is_no_trouble(kernel: Kernel) -> None:
    kernel.own.flags = kernel.own.extended = None
    kernel.own.mode = 0o777
    attributes.restore(SELF, FILE_SYSTEM_TOP)
    assert kernel.own.mode == 0o755
    assert not attributes.clear_flags(SELF)


def test_what_is_as_it_should_be_is_not_written(kernel: Kernel) -> None:
    kernel.own.flags, kernel.own.extended = INDEXED, (0x80000000, 0, 0, 0)
    kernel.refuses = lambda call, what: errno.EPERM if call in ("flags", "xflags") else 0
    attributes.restore(SELF, FILE_SYSTEM_TOP)


@pytest.mark.parametrize("call", ["owner", "mode", "remove", "set", "flags", "xflags"])
def test_what_cannot_be_restored_is_not_called_clean(kernel: Kernel, call: str) -> None:
    kernel.own.attributes["user.note"] = b"hello"
    kernel.own.flags, kernel.own.extended = NO_DUMP, (0x200, 0, 6, 0)
    kernel.refuses = lambda asked, what: errno.EIO if asked == call else 0
    with pytest.raises(errors.NotClean, match="cannot be restored"):
        attributes.restore(SELF, Attributes(mode=0o755, acl=ACL))


def test_directory_that_only_seems_to_be_restored_is_not_called_clean(
    kernel: Kernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel, "fchmod", lambda fd, mode: None)
    kernel.own.mode = 0o777
    with pytest.raises(errors.NotClean, match="mode 0777"):
        attributes.restore(SELF, FILE_SYSTEM_TOP)


def test_attribute_that_goes_together_with_another_one_is_gone(kernel: Kernel) -> None:
    """As xfs shows one list under two names."""
    kernel.own.attributes |= {ACCESS: b"theirs", "trusted.SGI_ACL_FILE": b"theirs"}

    def refuses(call: str, what: object) -> int:
        if call == "remove" and what == ACCESS:
            kernel.own.attributes.pop("trusted.SGI_ACL_FILE", None)
        return errno.ENODATA if call == "remove" and what == "trusted.SGI_ACL_FILE" else 0

    kernel.refuses = refuses
    attributes.restore(SELF, FILE_SYSTEM_TOP)
    assert kernel.own.attributes == {}


def test_flag_that_is_handed_on_but_cannot_be_set_is_left_out(kernel: Kernel) -> None:
    kernel.own.flags = TOP | INDEXED
    kernel.refuses = lambda call, what: errno.EOPNOTSUPP if call == "flags" and what == INDEXED | NO_DUMP else 0
    attributes.restore(SELF, Attributes(mode=0o755, flags=NO_DUMP))
    assert kernel.own.flags == INDEXED


# What is not as it should be.


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("mode", 0o754, "mode 0754"),
        ("mode", 0o1755, "mode 1755"),
        ("uid", 1, "owner 1:0"),
        ("gid", 1, "owner 0:1"),
        ("attributes", {"user.note": b""}, "user.note"),
        ("attributes", {"security.capability": b"x"}, "security.capability"),
        ("attributes", {DEFAULT: ACL}, "an access control list"),
        ("attributes", {ACCESS: ACL}, "an access control list"),
        ("flags", IMMUTABLE, "flags 0x10"),
        ("flags", APPEND_ONLY, "flags 0x20"),
        ("flags", TOP | INDEXED, "flags 0x20000"),
        ("extended", (0x8, 0, 0, 0), "extended flags 0x8"),
        ("extended", (0x200, 0, 0, 0), "extended flags 0x200"),
        ("extended", (0, 0, 6, 0), "project 6"),
        ("extended", (0, 5, 0, 0), "project 0"),
    ],
)
def test_one_thing_that_is_left_is_found(kernel: Kernel, field: str, value: object, said: str) -> None:
    attributes.verify(SELF, FILE_SYSTEM_TOP)
    setattr(kernel.own, field, value)
    with pytest.raises(errors.NotClean, match=said):
        attributes.verify(SELF, FILE_SYSTEM_TOP)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("attributes", {"security.selinux": b"x", "security.ima": b"x"}),
        ("flags", INDEXED),
        ("flags", None),
        ("extended", (0x80000000, 0, 0, 0)),
        ("extended", None),
    ],
)
def test_what_the_machine_keeps_for_itself_is_nobodys(kernel: Kernel, field: str, value: object) -> None:
    setattr(kernel.own, field, value)
    attributes.verify(SELF, FILE_SYSTEM_TOP)


def test_list_that_is_handed_on_takes_the_place_of_the_mode_and_must_be_there(kernel: Kernel) -> None:
    wanted = Attributes(mode=0o2755, acl=ACL)
    kernel.own.mode = 0o2700
    with pytest.raises(errors.NotClean, match="access control list"):
        attributes.verify(SELF, wanted)
    kernel.own.attributes |= {ACCESS: b"as the mode has it", DEFAULT: ACL}
    attributes.verify(SELF, wanted)
    kernel.own.mode = 0o700
    with pytest.raises(errors.NotClean, match="mode 0000"):
        attributes.verify(SELF, wanted)
    kernel.own.mode = 0o2700
    kernel.own.attributes[DEFAULT] = b"another one"
    with pytest.raises(errors.NotClean, match="access control list"):
        attributes.verify(SELF, wanted)


def test_flags_that_were_handed_on_are_no_tenants(kernel: Kernel) -> None:
    kernel.own.flags = NO_DUMP
    attributes.verify(SELF, Attributes(mode=0o755, flags=NO_DUMP))
    kernel.own.flags = 0
    attributes.verify(SELF, Attributes(mode=0o755, flags=NO_DUMP))
    kernel.own.flags = NO_DUMP | TOP
    with pytest.raises(errors.NotClean, match="flags 0x20040"):
        attributes.verify(SELF, Attributes(mode=0o755, flags=NO_DUMP))


# What a new directory would be.


def test_new_directory_takes_over_what_its_parent_hands_on(kernel: Kernel) -> None:
    assert attributes.fresh(SELF) == FILE_SYSTEM_TOP
    parent = kernel.parent
    parent.mode, parent.gid, parent.uid = 0o777, 50, 1000
    assert attributes.fresh(SELF) == FILE_SYSTEM_TOP, "without the bit the group is the maker's"
    parent.mode = 0o2777
    parent.attributes |= {DEFAULT: ACL, ACCESS: b"its own"}
    parent.flags = NO_DUMP | TOP | INDEXED | IMMUTABLE
    parent.extended = (0x8 | 0x200 | 0x1000 | 0x10000 | 0x80000000, 5, 6, 7)
    assert attributes.fresh(SELF) == Attributes(
        mode=0o2755, group=50, acl=ACL, flags=NO_DUMP, extended=Extended(0x11200, 5, 6, 7)
    )
    assert not kernel.open_now


def test_hints_and_projects_are_handed_on_only_by_their_flags(kernel: Kernel) -> None:
    for flag, handed in ((0x200, (0, 6, 0)), (0x1000, (5, 0, 0)), (0x10000, (0, 0, 7)), (0x40, (0, 0, 0))):
        kernel.parent.extended = (flag, 5, 6, 7)
        assert attributes.fresh(SELF).extended == Extended(flag, *handed)


def test_parent_without_any_of_it_hands_nothing_on(kernel: Kernel) -> None:
    kernel.parent.flags = kernel.parent.extended = None
    assert attributes.fresh(SELF) == FILE_SYSTEM_TOP


def test_mount_point_has_nothing_from_the_directory_that_it_is_in(kernel: Kernel) -> None:
    kernel.parent.mode, kernel.parent.gid, kernel.parent.mount = 0o2777, 50, 2
    assert attributes.fresh(SELF) == FILE_SYSTEM_TOP
    assert not kernel.open_now


# Flags that forbid a change.


@pytest.mark.parametrize("flag", [IMMUTABLE, APPEND_ONLY, IMMUTABLE | APPEND_ONLY])
def test_only_flags_that_forbid_a_change_are_taken_away(kernel: Kernel, flag: int) -> None:
    kernel.own.flags = flag | NO_DUMP
    assert attributes.clear_flags(SELF)
    assert kernel.own.flags == NO_DUMP
    assert not attributes.clear_flags(SELF)
    kernel.own.flags = flag
    kernel.refuses = lambda call, what: errno.EPERM
    assert not attributes.clear_flags(SELF)


def test_highest_flag_is_read_as_it_is(kernel: Kernel) -> None:
    kernel.own.flags = 0x80000010
    assert attributes.get_flags(SELF) == 0x80000010
