"""Builds and installs a filter that refuses system calls.

It lists what is refused, not what is allowed: ordinary programs must work, also with the next libc.
A refused call returns "not permitted", so that programs can continue. The filter also refuses the
network where there is no network namespace, and the socket families (vsock, netlink...) that such a
namespace does not cover.
"""

import ctypes
import struct

from hermes.environments.confinement import kernel

EPERM, ENOSYS = 1, 38
AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
NETLINK_ROUTE, NETLINK_SOCK_DIAG = 0, 4
SOCK_STREAM, SOCK_DGRAM, SOCK_RAW, SOCK_SEQPACKET = 1, 2, 3, 5
TIOCSTI, TIOCLINUX = 0x5412, 0x541C
SETUID_MODE_BITS, CREATE_FILE_FLAGS = 0o6000, 0o20000100
"""The setuid and setgid bits of a mode; O_CREAT and O_TMPFILE."""
F_SETLEASE, F_UNLCK = 1024, 2
FILE_KIND_MASK, CHARACTER_DEVICE, BLOCK_DEVICE = 0o170000, 0o020000, 0o060000
NEW_NAMESPACE_FLAGS = 0x7E020000
"""CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID and NET."""
ALL_BITS = 0xFFFFFFFF

ALWAYS_REFUSED_CALLS = """
acct add_key adjtimex bpf chroot clock_adjtime clock_settime delete_module fanotify_init
finit_module fsconfig fsmount fsopen fspick init_module io_uring_enter io_uring_register
io_uring_setup ioperm iopl kcmp kexec_file_load kexec_load keyctl lookup_dcookie memfd_secret
migrate_pages modify_ldt mount mount_setattr move_mount move_pages name_to_handle_at nfsservctl
open_by_handle_at open_tree open_tree_attr perf_event_open pidfd_getfd pivot_root process_madvise
process_mrelease process_vm_readv process_vm_writev ptrace quotactl quotactl_fd reboot request_key
setdomainname sethostname setns settimeofday swapoff swapon syslog umount2 unshare userfaultfd
uselib vhangup
"""

UNCOUNTED_MEMORY_CALLS = ["memfd_create", "shmget"]
"""Memory that belongs to no process: only a memory cgroup can limit it."""

REFUSED_WITHOUT_NAMESPACES = """
inotify_add_watch mq_open mq_unlink msgctl msgget msgrcv msgsnd semctl semget semop semtimedop
shmat shmctl shmget
"""
"""Calls that reach objects outside in spite of Landlock: shared memory, semaphores, queues."""

REFUSED_FOR_SAME_USER = """
chmod chown fchmod fchmodat fchmodat2 fchown fchownat file_setattr fremovexattr fsetxattr
futimesat lchown lremovexattr lsetxattr removexattr removexattrat setxattr setxattrat utime utimes
"""
"""Landlock does not cover mode, owner and times: any file of the same user could be changed."""

PROCESS_ARGUMENT_CALLS = {
    "prlimit64": 0,
    "sched_setaffinity": 0,
    "sched_setattr": 0,
    "sched_setparam": 0,
    "sched_setscheduler": 0,
    "setpriority": 1,
    "ioprio_set": 1,
}
"""Calls with a process id, and its argument: without namespaces only 0 (itself) is allowed."""


class ArgumentCondition:
    """True when a 32-bit word of the arguments, masked, is (or is not) one of `values`."""

    def __init__(
        self, argument: int, *values: int, unless: bool = False, mask: int = ALL_BITS, high: int = 0
    ) -> None:
        self.offset = 16 + 8 * argument + 4 * high
        self.values, self.unless, self.mask = values, unless, mask


def any_bit(argument: int, mask: int, high: int = 0) -> ArgumentCondition:
    return ArgumentCondition(argument, 0, unless=True, mask=mask, high=high)


class CallRefusal:
    """Refuse `name` when all of `conditions` hold."""

    def __init__(self, name: str, *conditions: ArgumentCondition, error: int = EPERM) -> None:
        self.name, self.conditions, self.answer = name, conditions, ACTION_ERROR | error


def lease_refusal() -> CallRefusal:
    """A lease on a file keeps everyone waiting who opens it; to give one back is allowed."""
    return CallRefusal(
        "fcntl",
        ArgumentCondition(1, F_SETLEASE),
        ArgumentCondition(2, F_UNLCK, unless=True),
    )


class CallNotification(CallRefusal):
    """Leave the answer to the supervisor that holds the filter's listener."""

    def __init__(self, name: str, *conditions: ArgumentCondition) -> None:
        super().__init__(name, *conditions)
        self.answer = ACTION_NOTIFY


def build_refusals(
    *, network: bool, connections: str, namespaces: bool, own_user: bool, counted_memory: bool
) -> list[CallRefusal]:
    """`own_user`: the commands run as a user that has no files outside. `connections` to unix
    sockets are "supervised" or "none"."""
    rules = [CallRefusal(name) for name in ALWAYS_REFUSED_CALLS.split()]
    rules += [
        # A filter cannot read the flags of these, which are behind a pointer; libc works without
        CallRefusal("clone3", error=ENOSYS),
        CallRefusal("openat2", error=ENOSYS),
        CallRefusal("clone", any_bit(0, NEW_NAMESPACE_FLAGS)),
        CallRefusal("ioctl", ArgumentCondition(1, TIOCSTI, TIOCLINUX)),
        CallRefusal(
            "mknod", ArgumentCondition(1, CHARACTER_DEVICE, BLOCK_DEVICE, mask=FILE_KIND_MASK)
        ),
        CallRefusal(
            "mknodat", ArgumentCondition(2, CHARACTER_DEVICE, BLOCK_DEVICE, mask=FILE_KIND_MASK)
        ),
        CallRefusal("socketpair", ArgumentCondition(0, AF_UNIX, unless=True)),
        CallRefusal(
            "socket", ArgumentCondition(0, *_allowed_families(network, connections), unless=True)
        ),
        # A datagram names its receiver in memory: it could reach any named socket.
        CallRefusal(
            "socket",
            ArgumentCondition(0, AF_UNIX),
            ArgumentCondition(1, SOCK_DGRAM, SOCK_RAW, mask=0xF),
        ),
        CallRefusal(
            "socketpair", ArgumentCondition(1, SOCK_STREAM, SOCK_SEQPACKET, unless=True, mask=0xF)
        ),
    ]
    if connections == "supervised":
        rules.append(CallNotification("connect"))
    rules += _setuid_refusals()
    if not counted_memory:
        rules += [CallRefusal(name) for name in UNCOUNTED_MEMORY_CALLS]
    if not namespaces:
        rules += _namespace_refusals()
        rules += [] if own_user else _same_user_refusals()
    return rules


COPY_SOCKET_FAMILIES = (AF_UNIX, AF_INET, AF_INET6, AF_NETLINK)
"""Those that the network namespace of a copy covers."""


def build_copy_refusals(*, counted_memory: bool) -> list[CallRefusal]:
    """For a copy of a host, in which services run with several users and set their own rights."""
    refused = [name for name in ALWAYS_REFUSED_CALLS.split() if name != "chroot"]
    refused += [] if counted_memory else UNCOUNTED_MEMORY_CALLS
    return [
        *(CallRefusal(name) for name in refused),
        CallRefusal("clone3", error=ENOSYS),
        CallRefusal("clone", any_bit(0, NEW_NAMESPACE_FLAGS)),
        CallRefusal("ioctl", ArgumentCondition(1, TIOCSTI, TIOCLINUX)),
        CallRefusal(
            "mknod", ArgumentCondition(1, CHARACTER_DEVICE, BLOCK_DEVICE, mask=FILE_KIND_MASK)
        ),
        CallRefusal(
            "mknodat", ArgumentCondition(2, CHARACTER_DEVICE, BLOCK_DEVICE, mask=FILE_KIND_MASK)
        ),
        CallRefusal("socketpair", ArgumentCondition(0, AF_UNIX, unless=True)),
        CallRefusal("socket", ArgumentCondition(0, *COPY_SOCKET_FAMILIES, unless=True)),
        CallRefusal(
            "socket",
            ArgumentCondition(0, AF_NETLINK),
            ArgumentCondition(2, NETLINK_ROUTE, NETLINK_SOCK_DIAG, unless=True),
        ),
    ]


def _setuid_refusals() -> list[CallRefusal]:
    """A setuid file in the working folder would give its owner's rights to users outside."""
    modes = {"chmod": 1, "creat": 1, "fchmod": 1, "fchmodat": 2, "fchmodat2": 2, "mknod": 1}
    rules = [
        CallRefusal(name, any_bit(argument, SETUID_MODE_BITS)) for name, argument in modes.items()
    ]
    return [
        *rules,
        CallRefusal("mknodat", any_bit(2, SETUID_MODE_BITS)),
        # Without O_CREAT the last argument is undefined
        CallRefusal("open", any_bit(1, CREATE_FILE_FLAGS), any_bit(2, SETUID_MODE_BITS)),
        CallRefusal("openat", any_bit(2, CREATE_FILE_FLAGS), any_bit(3, SETUID_MODE_BITS)),
    ]


def _allowed_families(network: bool, connections: str) -> tuple[int, ...]:
    """Without a supervisor any named socket could be reached, so unix sockets are refused."""
    local = (AF_UNIX,) if connections == "supervised" else ()
    return (*local, AF_INET, AF_INET6, AF_NETLINK) if network else local


def _namespace_refusals() -> list[CallRefusal]:
    rules = [CallRefusal(name) for name in REFUSED_WITHOUT_NAMESPACES.split()]
    return [
        *rules,
        *(
            CallRefusal(name, any_bit(argument, ALL_BITS))
            for name, argument in PROCESS_ARGUMENT_CALLS.items()
        ),
    ]


def _same_user_refusals() -> list[CallRefusal]:
    """Times may be set on an open file, but not by path: a null pointer has two zero halves."""
    return [
        *(CallRefusal(name) for name in REFUSED_FOR_SAME_USER.split()),
        lease_refusal(),
        CallRefusal("utimensat", any_bit(1, ALL_BITS)),
        CallRefusal("utimensat", any_bit(1, ALL_BITS, high=1)),
    ]


BPF_LOAD, BPF_JUMP_EQUAL, BPF_JUMP_ABOVE, BPF_JUMP_ALWAYS = 0x20, 0x15, 0x35, 0x05
BPF_AND, BPF_RETURN = 0x54, 0x06
ACTION_ALLOW, ACTION_ERROR, ACTION_KILL, ACTION_NOTIFY = (
    0x7FFF0000,
    0x00050000,
    0x80000000,
    0x7FC00000,
)
AUDIT_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
FLAG_NEW_LISTENER, FLAG_WAIT_KILLABLE = 8, 32
FIRST_X32_CALL = 0x40000000
"""On x86_64 the calls exist a second time from here on, with numbers not in the rules."""


def _instruction(code: int, value: int, yes: int = 0, no: int = 0) -> bytes:
    return struct.pack("HBBI", code, yes, no, value)


def _condition_test(condition: ArgumentCondition, to_end: int) -> bytes:
    """Continues when the condition holds, else skips the `to_end` instructions after it."""
    steps = _instruction(BPF_LOAD, condition.offset) + _instruction(BPF_AND, condition.mask)
    left = len(condition.values)
    for value in condition.values:
        left -= 1
        found, not_found = (left + to_end, 0) if condition.unless else (left, 0 if left else to_end)
        steps += _instruction(BPF_JUMP_EQUAL, value, found, not_found)
    return steps if condition.values else b""


def _compile_rules(rules: list[CallRefusal]) -> bytes:
    """Those of one call, in turn: a rule without conditions is the last."""
    code = b""
    for rule in rules:
        body = _instruction(BPF_RETURN, rule.answer)
        for condition in reversed(rule.conditions):
            body = _condition_test(condition, len(body) // 8) + body
        code += body
        if not rule.conditions:
            return code
    return code + _instruction(BPF_RETURN, ACTION_ALLOW)


def _compile_search(calls: list[tuple[int, bytes]]) -> bytes:
    """A binary search for the number of the call: the kernel tries the filter with every call when
    it is installed, which took longer than all the rest with one comparison after another."""
    allow = _instruction(BPF_RETURN, ACTION_ALLOW)
    if not calls:
        return allow
    if len(calls) == 1:
        number, code = calls[0]
        return _instruction(BPF_JUMP_EQUAL, number, 1, 0) + allow + code
    middle = len(calls) // 2
    below, above = _compile_search(calls[:middle]), _compile_search(calls[middle:])
    choice = _instruction(BPF_JUMP_ABOVE, calls[middle][0], 0, 1)
    return choice + _instruction(BPF_JUMP_ALWAYS, len(below) // 8) + below + above


def compile_filter(rules: list[CallRefusal], machine: str = "") -> bytes:
    """The filter program. Raises `OSError` for an architecture without known call numbers."""
    machine = machine or kernel.machine()
    code = _instruction(BPF_LOAD, 4) + _instruction(
        BPF_JUMP_EQUAL, AUDIT_ARCHITECTURES.get(machine, 0), 1, 0
    )
    code += _instruction(BPF_RETURN, ACTION_KILL) + _instruction(BPF_LOAD, 0)
    code += _instruction(BPF_JUMP_ABOVE, FIRST_X32_CALL, 0, 1) + _instruction(
        BPF_RETURN, ACTION_KILL
    )
    calls: dict[int, list[CallRefusal]] = {}
    for rule in rules:
        number = kernel.syscall_number(rule.name, machine)
        if number is not None:
            calls.setdefault(number, []).append(rule)
    return code + _compile_search(
        [(number, _compile_rules(own)) for number, own in sorted(calls.items())]
    )


class _FilterProgram(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("steps", ctypes.c_char_p)]


def install_filter(code: bytes) -> None:
    """Applies to this process and its descendants. Needs no_new_privs."""
    described = _FilterProgram(len(code) // 8, code)
    kernel.prctl(22, 2, ctypes.addressof(described))


def install_filter_with_listener(code: bytes) -> int:
    """As `install_filter`; returns the descriptor for notifications.

    Needs no_new_privs or CAP_SYS_ADMIN. Raises `OSError` (EBUSY) under another listener.
    """
    described = _FilterProgram(len(code) // 8, code)
    try:  # Linux 5.19: a received call is not interrupted, so it is never carried out twice
        flags = FLAG_NEW_LISTENER | FLAG_WAIT_KILLABLE
        return kernel.system_call("seccomp", 1, flags, ctypes.byref(described))
    except OSError as error:
        if error.errno != 22:
            raise
    return kernel.system_call("seccomp", 1, FLAG_NEW_LISTENER, ctypes.byref(described))


def is_available() -> bool:
    """Return whether the kernel supports filters: without a program the error is EFAULT, not
    EINVAL."""
    try:
        kernel.prctl(22, 2, 0)
    except OSError as error:
        return error.errno == 14
    return True
