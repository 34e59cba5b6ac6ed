"""Which system calls a container may make: securityContext.seccompProfile, as the runtime takes it.

`RuntimeDefault` is an allow list: what ordinary programs call, and what goes with a capability that the container has.
All else fails with EPERM. Calls that are newer than this list fail with ENOSYS, for which the runtime sees, so that
programs fall back to older ones. Left out on purpose are calls that make namespaces or mounts, load programs or keys
into the kernel, or have been the way out of containers again and again (io_uring, userfaultfd, bpf).
"""

from __future__ import annotations

import os
import platform
from collections.abc import Collection
from pathlib import Path
from typing import Any

import msgspec

from localpv.api.kinds.containers import Container, SecurityProfile
from localpv.api.kinds.pods import Pod
from localpv.engine.kubelet.events import BadConfig

RUNTIME_DEFAULT, LOCALHOST, UNCONFINED = "RuntimeDefault", "Localhost", "Unconfined"

MOST_BYTES = 1 << 20
"""Of a profile in a file."""

_FILES = """
    access chdir chmod chown chown32 close close_range copy_file_range creat dup dup2 dup3 faccessat faccessat2
    fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync
    fgetxattr flistxattr flock fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate
    ftruncate64 futimesat getcwd getdents getdents64 getxattr getxattrat inotify_add_watch inotify_init inotify_init1
    inotify_rm_watch ioctl lchown lchown32 lgetxattr link linkat listxattr listxattrat llistxattr lremovexattr lseek
    _llseek lsetxattr lstat lstat64 mkdir mkdirat mknod mknodat name_to_handle_at newfstatat oldfstat oldlstat oldstat
    open openat openat2 pread64 preadv preadv2 pwrite64 pwritev pwritev2 read readahead readlink readlinkat readv
    removexattr removexattrat rename renameat renameat2 rmdir sendfile sendfile64 setxattr setxattrat splice stat stat64
    statfs statfs64 statx symlink symlinkat sync sync_file_range sync_file_range2 arm_sync_file_range syncfs tee
    truncate truncate64 umask unlink unlinkat ustat utime utimensat utimensat_time64 utimes vmsplice write writev
    fanotify_mark cachestat statmount listmount file_getattr file_setattr
    landlock_add_rule landlock_create_ruleset landlock_restrict_self
    io_cancel io_destroy io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit
"""
_MEMORY = """
    brk get_mempolicy_home_node madvise map_shadow_stack membarrier memfd_create memfd_secret mincore mlock mlock2
    mlockall mmap mmap2 mprotect mremap mseal msync munlock munlockall munmap pkey_alloc pkey_free pkey_mprotect
    remap_file_pages process_mrelease
"""
_PROCESSES = """
    alarm capget capset execve execveat exit exit_group fork get_robust_list get_thread_area getcpu getegid getegid32
    geteuid geteuid32 getgid getgid32 getgroups getgroups32 getpgid getpgrp getpid getppid getpriority getresgid
    getresgid32 getresuid getresuid32 getrlimit getrusage getsid gettid getuid getuid32 ioprio_get ioprio_set kill
    nice pause pidfd_open pidfd_send_signal prctl prlimit64 ptrace restart_syscall rseq seccomp set_robust_list
    set_thread_area set_tid_address setfsgid setfsgid32 setfsuid setfsuid32 setgid setgid32 setgroups setgroups32
    setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 setreuid setreuid32 setrlimit
    setsid setuid setuid32 tgkill times tkill uname ugetrlimit vfork wait4 waitid waitpid arch_prctl modify_ldt
    sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam sched_getscheduler
    sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam
    sched_setscheduler sched_yield sysinfo getrandom swapcontext cacheflush breakpoint set_tls get_tls
    lsm_get_self_attr lsm_list_modules lsm_set_self_attr riscv_hwprobe riscv_flush_icache
    s390_pci_mmio_read s390_pci_mmio_write s390_runtime_instr
"""
_SIGNALS = """
    rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait
    rt_sigtimedwait_time64 rt_tgsigqueueinfo sigaction sigaltstack signal signalfd signalfd4 sigpending sigprocmask
    sigreturn sigsuspend
"""
_TIME = """
    adjtimex clock_adjtime clock_adjtime64 clock_getres clock_getres_time64 clock_gettime clock_gettime64
    clock_nanosleep clock_nanosleep_time64 getitimer gettimeofday nanosleep setitimer time timer_create timer_delete
    timer_getoverrun timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd_create timerfd_gettime
    timerfd_gettime64 timerfd_settime timerfd_settime64
"""
_WAITING = """
    epoll_create epoll_create1 epoll_ctl epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd
    eventfd2 futex futex_requeue futex_time64 futex_wait futex_waitv futex_wake poll ppoll ppoll_time64 pselect6
    pselect6_time64 _newselect select
"""
_TALKING = """
    accept accept4 bind connect getpeername getsockname getsockopt listen recv recvfrom recvmmsg recvmmsg_time64
    recvmsg send sendmmsg sendmsg sendto setsockopt shutdown socketcall socketpair pipe pipe2 ipc mq_getsetattr
    mq_notify mq_open mq_timedreceive mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink msgctl msgget
    msgrcv msgsnd semctl semget semop semtimedop semtimedop_time64 shmat shmctl shmdt shmget
"""
ALWAYS = tuple(
    name for part in (_FILES, _MEMORY, _PROCESSES, _SIGNALS, _TIME, _WAITING, _TALKING) for name in part.split()
)

WITH_CAPABILITY: dict[str, tuple[str, ...]] = {
    "BPF": ("bpf",),
    "DAC_READ_SEARCH": ("open_by_handle_at",),
    "PERFMON": ("perf_event_open",),
    "SYS_ADMIN": (
        *("bpf", "clone", "clone3", "fanotify_init", "fsconfig", "fsmount", "fsopen", "fspick", "lookup_dcookie"),
        *("mount", "mount_setattr", "move_mount", "open_tree", "perf_event_open", "quotactl", "quotactl_fd"),
        *("setdomainname", "sethostname", "setns", "syslog", "umount", "umount2", "unshare"),
    ),
    "SYS_BOOT": ("reboot",),
    "SYS_CHROOT": ("chroot",),
    "SYS_MODULE": ("delete_module", "finit_module", "init_module"),
    "SYS_NICE": ("get_mempolicy", "mbind", "migrate_pages", "move_pages", "set_mempolicy", "set_mempolicy_home_node"),
    "SYS_PACCT": ("acct",),
    "SYS_PTRACE": ("kcmp", "pidfd_getfd", "process_madvise", "process_vm_readv", "process_vm_writev"),
    "SYS_RAWIO": ("ioperm", "iopl"),
    "SYS_TIME": ("clock_settime", "clock_settime64", "settimeofday", "stime"),
    "SYS_TTY_CONFIG": ("vhangup",),
    "SYSLOG": ("syslog",),
}

ARCHITECTURES = {
    "x86_64": ("SCMP_ARCH_X86_64", "SCMP_ARCH_X86", "SCMP_ARCH_X32"),
    "aarch64": ("SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"),
    "ppc64le": ("SCMP_ARCH_PPC64LE",),
    "riscv64": ("SCMP_ARCH_RISCV64",),
    "s390x": ("SCMP_ARCH_S390X", "SCMP_ARCH_S390"),
}
"""What programs of a machine may be made for. Calls of any other kind of program are refused altogether."""

_ALLOW, _ERRNO, _EPERM, _ENOSYS = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO", 1, 38
_NEW_NAMESPACES = 0x7E020000
"""The flags of clone that make namespaces."""

_PERSONALITIES = (0x0, 0x8, 0x20000, 0x20008, 0xFFFFFFFF)
"""Linux with 32-bit addresses or an old name, and the question which one it is; no others, with their old bugs."""

_VIRTUAL_MACHINES = 40
"""The address family of sockets to hypervisors, which knows nothing of network namespaces."""


def profile_of(pod: Pod, container: Container, *, capabilities: Collection[str], folder: Path) -> dict[str, Any] | None:
    """`linux.seccomp` of a container with these capabilities; None for one that may call everything.

    `folder` holds the profiles that `Localhost` names.
    """
    chosen = choice(pod, container)
    if chosen is None or chosen.type == UNCONFINED:
        return None
    if chosen.type == LOCALHOST:
        return _read(folder, chosen.localhost_profile or "")
    return runtime_default(capabilities)


def choice(pod: Pod, container: Container) -> SecurityProfile | None:
    """What the container asks for, or else its pod. Neither does: everything is allowed, as a kubelet has it."""
    own, whole = container.security_context, pod.spec.security_context
    if own is not None and own.privileged:
        return None  # as container runtimes have it
    if own is not None and own.seccomp_profile is not None:
        return own.seccomp_profile
    return whole.seccomp_profile if whole is not None else None


def runtime_default(capabilities: Collection[str]) -> dict[str, Any]:
    """The profile for containers that ask for what is usual."""
    held = {name.removeprefix("CAP_") for name in capabilities}
    machine = platform.machine()
    names = {*ALWAYS, *(name for key in WITH_CAPABILITY.keys() & held for name in WITH_CAPABILITY[key])}
    calls: list[dict[str, Any]] = [_allow(*sorted(names))]
    calls += [_allow("personality", _argument(0, value)) for value in _PERSONALITIES]
    calls.append(_allow("socket", _argument(0, _VIRTUAL_MACHINES, "SCMP_CMP_NE")))
    if "SYS_ADMIN" not in held:
        flags = 1 if machine.startswith("s390") else 0
        calls.append(_allow("clone", _argument(flags, _NEW_NAMESPACES, "SCMP_CMP_MASKED_EQ")))
        # Its flags are in memory, where no filter can see them; without it programs use clone.
        calls.append({"names": ["clone3"], "action": _ERRNO, "errnoRet": _ENOSYS})
    profile: dict[str, Any] = {"defaultAction": _ERRNO, "defaultErrnoRet": _EPERM, "syscalls": calls}
    if machine in ARCHITECTURES:
        profile["architectures"] = ARCHITECTURES[machine]
    return profile


def _allow(*what: Any) -> dict[str, Any]:
    arguments = [one for one in what if isinstance(one, dict)]
    allowed: dict[str, Any] = {"names": [one for one in what if isinstance(one, str)], "action": _ALLOW}
    return {**allowed, "args": arguments} if arguments else allowed


def _argument(index: int, value: int, compare: str = "SCMP_CMP_EQ") -> dict[str, Any]:
    # MASKED_EQ compares the bits of `value` with `valueTwo`.
    return {"index": index, "value": value, "valueTwo": 0, "op": compare}


class _Argument(msgspec.Struct, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    index: int
    value: int
    op: str
    value_two: int = 0


class _Call(msgspec.Struct, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    names: tuple[str, ...]
    action: str
    errno_ret: int | None = None
    args: tuple[_Argument, ...] = ()


class _Profile(msgspec.Struct, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """As the OCI runtime specification has it. What is not known is refused: a rule that is overlooked allows."""

    default_action: str
    default_errno_ret: int | None = None
    architectures: tuple[str, ...] = ()
    flags: tuple[str, ...] = ()
    syscalls: tuple[_Call, ...] = ()


def _read(folder: Path, name: str) -> dict[str, Any]:
    """A profile that an administrator has put into the folder; BadConfig when it cannot be used."""
    path = Path(os.path.realpath(folder / name))
    if not path.is_relative_to(os.path.realpath(folder)):
        raise BadConfig(f'seccompProfile.localhostProfile "{name}" leads out of {folder}')
    try:
        with path.open("rb") as file:
            text = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise BadConfig(
            f'cannot load seccomp profile "{name}": {error.strerror}', hint=f"put it into {folder}"
        ) from error
    try:
        if len(text) > MOST_BYTES:
            raise msgspec.ValidationError(f"it is longer than {MOST_BYTES} bytes")
        found: dict[str, Any] = msgspec.to_builtins(msgspec.json.decode(text, type=_Profile))
    except msgspec.DecodeError as error:
        raise BadConfig(f'cannot load seccomp profile "{name}": {error}', hint=f"mend it in {folder}") from error
    return found
