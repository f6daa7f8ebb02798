"""Confines the calling process to the rules of its verdict, just before its exec.

Landlock refuses every change outside of the granted folders and devices, TCP, abstract sockets and
signals to processes outside. A system-call filter passes what Landlock does not cover to a
supervisor (modes, owners, times, unix sockets, and files that are granted by their exact name), and
refuses what no judged command needs. Root also loses the capabilities that these calls would use.
"""

import ctypes
import os
import resource

from hermes.environments.confinement import kernel, landlock, process_control, seccomp
from hermes.environments.confinement.call_supervisor import TIOCGPTPEER
from hermes.environments.confinement.hidden_files import StandIns
from hermes.environments.confinement.messages import WRITABLE_DEVICES, VerdictRules
from hermes.environments.confinement.seccomp import (
    ArgumentCondition,
    CallNotification,
    CallRefusal,
    any_bit,
    lease_refusal,
)

WRITE_FLAGS = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
NO_READ_FLAGS = WRITE_FLAGS | os.O_DIRECTORY | os.O_PATH
"""With none of these, a file is opened to be read."""
LARGE_FILE_FLAG = {"x86_64": 0o100000, "aarch64": 0o400000}
TERMINAL_OPEN_FLAGS = tuple(
    os.O_RDWR | os.O_NONBLOCK | extra for extra in (0, LARGE_FILE_FLAG.get(kernel.machine(), 0))
)
CHANGE_CALLS = """
chmod chown creat fchmod fchmodat fchmodat2 fchown fchownat file_setattr fremovexattr fsetxattr
futimesat lchown link linkat lremovexattr lsetxattr mkdir mkdirat mknod mknodat removexattr
removexattrat rename renameat renameat2 rmdir setxattr setxattrat symlink symlinkat truncate unlink
unlinkat utime utimensat utimes
"""
"""Calls that change a file, a folder or its attributes, besides opening for writing."""

EXECUTE_CALLS = ("execve", "execveat")

FORBIDDEN_CALLS = """
acct bpf chroot clock_settime delete_module finit_module fsconfig fsmount fsopen fspick init_module
kexec_file_load kexec_load mount mount_setattr move_mount mq_open mq_unlink msgrcv msgsnd
open_by_handle_at open_tree open_tree_attr
pivot_root reboot semop semtimedop setdomainname sethostname setns
settimeofday shmat swapoff swapon umount2 unshare vhangup
"""
"""Calls that change the machine or other programs. The supervisor refuses and reports them."""

SYSLOG_READ_ACTIONS = (0, 1, 3, 9, 10)
"""Actions of `syslog` that read kernel messages without clearing them."""
SYSTEM_V_CONTROL_CALLS = ("msgctl", "semctl", "shmctl")
SYSTEM_V_CHANGE_COMMANDS = (0, 1)
SEMAPHORE_SET_COMMANDS = (16, 17)

CAP_SYS_PTRACE = 19
CAP_NET_ADMIN, CAP_SYS_MODULE, CAP_SYS_RAWIO = 12, 16, 17
CAP_SYS_ADMIN, CAP_SYS_BOOT, CAP_SYS_RESOURCE, CAP_SYS_TIME = 21, 22, 24, 25
CAP_AUDIT_WRITE, CAP_AUDIT_CONTROL = 29, 30
PERFORMANCE_MONITORING = 38
NETLINK_AUDIT, MULTIPATH_TCP, NO_SUCH_PROTOCOL = 9, 262, 93
AF_PACKET = 17
NO_NEW_PRIVILEGES = 38
CLONE_NEW_MOUNTS = 0x20000
MOUNT_RECURSIVE, MOUNT_PRIVATE, MOUNT_BIND = 0x4000, 0x40000, 0x1000
AT_RECURSIVE, MOUNT_READ_ONLY = 0x8000, 1
CHANGE_IOCTLS = (
    *(0x40086602, 0x40046602, 0x401C5820, 0xC0185879, 0xC0045877, 0xC0045878),
    *(0x40087602, 0x40047602, 0x40086604, 0x40046604),
)
"""Set flags, projects and versions of a file, trim and freeze a file system: they work on files
that are open for reading only."""
LOCK_EXCLUSIVELY = 2
KEY_AND_SHARED_MEMORY_CALLS = ("add_key", "request_key", "msgget", "semget", "shmget")
BTRFS_IOCTL_TYPE, NO_SUCH_IOCTL = 0x94, 25
SEND_CALL_FLAG_ARGUMENTS, TCP_FAST_OPEN_FLAG = (
    {"sendto": 3, "sendmsg": 2, "sendmmsg": 3},
    0x20000000,
)
"""The calls with the index of their flags, and the flag that connects without `connect`."""
SIGNAL_OWNER_COMMANDS = (8, 10, 15)
"""`F_SETOWN`, `F_SETSIG`, `F_SETOWN_EX`: the kernel signals any process when data arrives."""
SIGNAL_OWNER_IOCTLS = (0x8901, 0x8902)
"""The same by `FIOSETOWN` and `SIOCSPGRP`."""
ATTACHING_CALLS = ("ptrace", "process_vm_readv", "process_vm_writev")
SIGNAL_CALLS = ("tkill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_send_signal")
"""Calls that send a signal, besides `kill`; a thread sends some of them to itself."""


MIN_MEMORY_BYTES = 1 << 30
"""Memory that each process of a command gets on any machine; otherwise half of what is there."""
MIN_FILE_BYTES = 16 << 20
FREE_SHARE = 16
"""A file may take this part of the free space, so that several leave some of it."""


def _lower_limit(kind: int, value: int) -> None:
    _, most = resource.getrlimit(kind)
    value = min(value, most) if most != resource.RLIM_INFINITY else value
    resource.setrlimit(kind, (value, value))


def free_share(rules: VerdictRules) -> int:
    """A part of the space that is free where the command may write."""
    found = rules.max_file_bytes
    for path in (*rules.trees, *rules.exact):
        try:
            space = os.statvfs(path)
        except OSError:  # made by the command itself
            continue
        found = min(found, space.f_bavail * space.f_frsize // FREE_SHARE)
    return max(found, min(MIN_FILE_BYTES, rules.max_file_bytes))


class VerdictEnforcer:
    """Confines processes. What all verdicts share is built once, before the first."""

    def __init__(self) -> None:
        self._devices = [
            fd
            for name in WRITABLE_DEVICES
            if (fd := landlock.open_path_handle(f"/dev/{name}")) >= 0
        ]
        self._programs: dict[bytes, bytes] = {}
        self._abi = landlock.landlock_version()
        self._ready: landlock.LandlockRuleset | None = None
        self._privileged = has_capability(CAP_SYS_ADMIN)
        self._stand_ins = StandIns()

    def prepare(self, rules: VerdictRules) -> None:
        """Called in the fork server: the next command with such rules starts faster."""
        self._program(rules)

    def prepare_stand_ins(self) -> None:
        """Called in the fork server, once."""
        if self._privileged:
            self._stand_ins.prepare()

    def rehearse(self) -> None:
        """Called in a process that will become a command: prepares what most verdicts share."""
        try:
            self._ready = self._common_grants(VerdictRules())
        except OSError:
            self._ready = None  # `enforce` gets the same error and reports it
        self._program(VerdictRules())
        self._touch_memory()
        if self._privileged:
            self._stand_ins.rehearse()

    def _touch_memory(self) -> None:
        """Does without effect what `enforce` does: memory that a fork shares is copied when it is
        first used, and that takes longer than these calls."""
        rules = VerdictRules.unpack(VerdictRules().pack())
        rules.trees, rules.max_file_bytes = ("/",), MIN_FILE_BYTES
        free_share(rules)
        resource.setrlimit(resource.RLIMIT_DATA, resource.getrlimit(resource.RLIMIT_DATA))
        os.close(landlock.open_path_handle("/"))
        kernel.prctl(process_control.PR_CAPBSET_READ, 0)
        _capabilities()

    def why_visible(self) -> str:
        """Return why files with secrets cannot be hidden; empty when they can.

        Called in a process that is only there to try it.
        """
        if not self._privileged:
            return "only root can hide them"
        try:
            hidden = self._stand_ins.hide(("/etc/passwd",))
        except OSError:
            hidden = False
        return "" if hidden else "mounts of its own are forbidden here, as in some containers"

    def enforce(self, rules: VerdictRules) -> int:
        """Returns the listener of the system-call filter, for the supervisor.

        Raises `OSError` naming the step that the kernel refused; then nothing may be run.
        """
        if rules.hidden and self._privileged:
            self._stand_ins.hide(rules.hidden)
        if rules.sees_processes:
            make_mounts_read_only(rules.trees)
        else:
            grants = self._grants(rules)
            if not self._privileged:
                kernel.prctl(NO_NEW_PRIVILEGES, 1)
            grants.restrict()
        if rules.max_file_bytes:
            _lower_limit(resource.RLIMIT_FSIZE, min(rules.max_file_bytes, free_share(rules)))
            memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
            _lower_limit(resource.RLIMIT_DATA, max(MIN_MEMORY_BYTES, memory // 2))
        listener = seccomp.install_filter_with_listener(self._program(rules))
        drop_capabilities(rules)
        return listener

    def _program(self, rules: VerdictRules) -> bytes:
        key = rules.shape
        if key not in self._programs:
            self._programs[key] = seccomp.compile_filter(build_filter(rules))
        return self._programs[key]

    def _grants(self, rules: VerdictRules) -> landlock.LandlockRuleset:
        usual = not (rules.may_signal or rules.device_control or rules.listens or rules.readable)
        grants = self._ready if usual and self._ready else self._common_grants(rules)
        for path in rules.trees:
            grants.writable(path)
        for path in rules.files:
            grants.device(path)
        for path in rules.readable:
            grants.readable(path)
        return grants

    def _common_grants(self, rules: VerdictRules) -> landlock.LandlockRuleset:
        scopes = 0
        if self._abi >= landlock.VERSION_WITH_SCOPES:
            scopes = landlock.SCOPE_ABSTRACT_SOCKETS | (
                0 if rules.may_signal else landlock.SCOPE_SIGNALS
            )
        rights = landlock.RIGHTS_CHANGE | (landlock.RIGHTS_READ if rules.readable else 0)
        if rules.device_control:
            rights &= ~landlock.RIGHT_IOCTL_DEVICE
        # The supervisor decides on connections; Landlock only on ports to listen on.
        grants = landlock.LandlockRuleset(
            network=rules.listens, scopes=scopes, rights=rights, abi=self._abi
        )
        for device in self._devices:
            grants.opened_device(device)
        return grants


def build_filter(rules: VerdictRules) -> list[CallRefusal]:
    """The calls that are refused or passed to the supervisor, frequent ones first."""
    found: list[CallRefusal] = [
        _notify_write_opening("openat", 2, rules),
        _notify_write_opening("open", 1, rules),
        CallNotification("connect"),
        CallNotification("socket", *_refused_sockets(rules)),
        CallRefusal("openat2", error=seccomp.ENOSYS),
        CallRefusal("clone", any_bit(0, seccomp.NEW_NAMESPACE_FLAGS)),
        CallRefusal("clone3", error=seccomp.ENOSYS),  # a filter cannot read its flags
        *(CallRefusal(name) for name in KEY_AND_SHARED_MEMORY_CALLS),
        *(CallRefusal(name) for name in ("io_uring_setup", "io_uring_enter", "io_uring_register")),
        *(
            CallRefusal(name, any_bit(at, TCP_FAST_OPEN_FLAG))
            for name, at in SEND_CALL_FLAG_ARGUMENTS.items()
        ),
        *(CallNotification(name) for name in CHANGE_CALLS.split()),
        *(CallNotification(name) for name in FORBIDDEN_CALLS.split()),
        *(
            CallNotification(name, ArgumentCondition(1, *SYSTEM_V_CHANGE_COMMANDS))
            for name in SYSTEM_V_CONTROL_CALLS
        ),
        CallNotification("semctl", ArgumentCondition(2, *SEMAPHORE_SET_COMMANDS)),
        CallRefusal("ioctl", ArgumentCondition(1, seccomp.TIOCSTI, seccomp.TIOCLINUX)),
        CallNotification("ioctl", ArgumentCondition(1, TIOCGPTPEER)),
        CallNotification("syslog", ArgumentCondition(0, *SYSLOG_READ_ACTIONS, unless=True)),
        # A datagram can be sent from a pair to any named socket of the host.
        CallRefusal(
            "socketpair",
            ArgumentCondition(
                1, seccomp.SOCK_STREAM, seccomp.SOCK_SEQPACKET, unless=True, mask=0xF
            ),
        ),
    ]
    if rules.checks_reads:
        found.insert(0, CallNotification("openat", ArgumentCondition(2, 0, mask=NO_READ_FLAGS)))
        found.append(CallNotification("open", ArgumentCondition(1, 0, mask=NO_READ_FLAGS)))
    if rules.judged_files:
        found += [CallNotification(name) for name in EXECUTE_CALLS]
    # Landlock and the supervisor do not cover its connections and listeners.
    found.append(CallRefusal("socket", ArgumentCondition(2, MULTIPATH_TCP), error=NO_SUCH_PROTOCOL))
    found += _refused_named_datagrams(rules)
    if not rules.audit_control:
        audit = (ArgumentCondition(0, seccomp.AF_NETLINK), ArgumentCondition(2, NETLINK_AUDIT))
        found.append(CallRefusal("socket", *audit, error=NO_SUCH_PROTOCOL))
    found.append(CallNotification("ioctl", ArgumentCondition(1, *CHANGE_IOCTLS)))
    found.append(CallNotification("flock", any_bit(1, LOCK_EXCLUSIVELY)))
    found.append(lease_refusal())
    if not rules.device_control:
        found.append(
            CallRefusal(
                "ioctl",
                ArgumentCondition(1, BTRFS_IOCTL_TYPE << 8, mask=0xFF00),
                error=NO_SUCH_IOCTL,
            )
        )
    if rules.network and not rules.listens:
        found.append(CallNotification("listen"))  # without `bind` the kernel chooses a port
    if rules.sees_processes:
        # With a descriptor of another process, such as the supervisor, a command could escape.
        attaching = () if rules.may_attach else ATTACHING_CALLS
        refused = ("pidfd_getfd", *attaching)
        signals = () if rules.may_signal else SIGNAL_CALLS
        found += [CallNotification(name) for name in (*signals, *refused)]
    if not rules.may_signal:
        found += [
            CallNotification("kill"),
            CallRefusal("fcntl", ArgumentCondition(1, *SIGNAL_OWNER_COMMANDS)),
            CallRefusal("ioctl", ArgumentCondition(1, *SIGNAL_OWNER_IOCTLS)),
        ]
        # Allowed for the process itself (0), and to read the limits of another process.
        found += [
            CallNotification(name, any_bit(argument, seccomp.ALL_BITS))
            for name, argument in seccomp.PROCESS_ARGUMENT_CALLS.items()
            if name != "prlimit64"
        ]
        found.append(
            CallNotification(
                "prlimit64", any_bit(0, seccomp.ALL_BITS), any_bit(2, seccomp.ALL_BITS)
            )
        )
    return found


def _notify_write_opening(name: str, flags: int, rules: VerdictRules) -> CallNotification:
    """Every bash opens the terminal once, with these flags: Landlock alone decides on that."""
    if rules.sees_processes:
        return CallNotification(name, any_bit(flags, WRITE_FLAGS))
    terminal = ArgumentCondition(flags, *TERMINAL_OPEN_FLAGS, unless=True)
    return CallNotification(name, any_bit(flags, WRITE_FLAGS), terminal)


def _refused_sockets(rules: VerdictRules) -> tuple[ArgumentCondition, ...]:
    """Unix sockets are connected by the supervisor; netlink queries the kernel.

    Sockets that only ask about interfaces are made by the supervisor, so that they cannot send."""
    families = [seccomp.AF_UNIX, seccomp.AF_NETLINK]
    if rules.network and not rules.connecting:  # else the supervisor looks who makes one
        families += [seccomp.AF_INET, seccomp.AF_INET6]
    if rules.raw_sockets and not rules.connecting:
        families.append(AF_PACKET)
    return (ArgumentCondition(0, *families, unless=True),)


def _refused_named_datagrams(rules: VerdictRules) -> list[CallRefusal]:
    """A datagram without a connection names its receiver in memory, which no filter can read."""
    refused: list[CallRefusal] = [
        CallRefusal(
            "socket",
            ArgumentCondition(0, seccomp.AF_UNIX),
            ArgumentCondition(1, seccomp.SOCK_DGRAM, seccomp.SOCK_RAW, mask=0xF),
        )
    ]
    inet = (seccomp.AF_INET, seccomp.AF_INET6)
    if rules.network and not rules.raw_sockets:
        refused.append(
            CallRefusal(
                "socket",
                ArgumentCondition(0, *inet),
                ArgumentCondition(1, seccomp.SOCK_RAW, mask=0xF),
            )
        )
    return refused


class _MountAttributes(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("set", "clear", "propagation", "namespace")]


def make_mounts_read_only(trees: tuple[str, ...]) -> None:
    """A mount namespace in which only these folders can be written. Raises `OSError`."""
    kernel.system_call("unshare", CLONE_NEW_MOUNTS)
    library = kernel.libc()
    kept = [os.fsencode(tree) for tree in trees]
    if library.mount(b"none", b"/", None, MOUNT_RECURSIVE | MOUNT_PRIVATE, None):
        raise OSError(ctypes.get_errno(), "cannot make mounts private")
    for tree in kept:
        if library.mount(tree, tree, None, MOUNT_RECURSIVE | MOUNT_BIND, None):
            raise OSError(ctypes.get_errno(), f"cannot keep {tree!r} writable")
    _set_mount(b"/", AT_RECURSIVE, _MountAttributes(MOUNT_READ_ONLY, 0, 0, 0))
    for tree in kept:
        _set_mount(tree, AT_RECURSIVE, _MountAttributes(0, MOUNT_READ_ONLY, 0, 0))


def _set_mount(path: bytes, flags: int, attributes: _MountAttributes) -> None:
    size = ctypes.sizeof(attributes)
    kernel.system_call("mount_setattr", -100, path, flags, ctypes.byref(attributes), size)


def _capabilities() -> "ctypes.Array[ctypes.c_uint32]":
    """Effective, permitted and inheritable capabilities: low words, then high words."""
    found = (ctypes.c_uint32 * 6)()
    header = process_control.capability_header()
    kernel.system_call("capget", ctypes.byref(header), ctypes.byref(found))
    return found


def has_capability(number: int) -> bool:
    return bool(_capabilities()[0 if number < 32 else 3] >> (number % 32) & 1)


def drop_capabilities(rules: VerdictRules) -> None:
    """Drops those that change the machine without a file: clocks, modules, network, raw devices.

    It also drops performance monitoring, which opens the memory and the environment of every
    process, whatever Landlock hides.
    """
    dropped = [CAP_SYS_MODULE, CAP_SYS_BOOT, CAP_SYS_TIME]
    dropped += [CAP_SYS_RESOURCE] if rules.max_file_bytes else []  # it could raise its limits
    dropped += [] if rules.network_control else [CAP_NET_ADMIN]
    dropped += [] if rules.audit_control else [CAP_AUDIT_WRITE, CAP_AUDIT_CONTROL]
    dropped += (
        [] if rules.device_control else [CAP_SYS_RAWIO, CAP_SYS_ADMIN, PERFORMANCE_MONITORING]
    )
    found = _capabilities()
    if not any(found):
        return
    for number in dropped:
        try:
            kernel.prctl(process_control.PR_CAPBSET_DROP, number)
        except OSError as error:
            if error.errno != 1:  # EPERM: exec as root cannot regain it either
                raise
        for word in range(3):
            found[word + 3 * (number // 32)] &= ~(1 << number % 32)
    header = process_control.capability_header()
    kernel.system_call("capset", ctypes.byref(header), ctypes.byref(found))
