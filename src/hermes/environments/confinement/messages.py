"""Sends and receives messages between Hermes and its launchers, with open files attached.

Requests are read with `marshal`: only Hermes can write them. An answer is a letter and a few bytes:
Hermes never unpacks data from inside a sandbox.
"""

import _socket
import array
import marshal

ANSWER_OK, ANSWER_FAILED, ANSWER_ENDED, ANSWER_FILE, ANSWER_QUOTA_EXCEEDED = (
    b"+",
    b"!",
    b"=",
    b"@",
    b"#",
)
"""First byte of an answer. QUOTA_EXCEEDED is ENDED in a sandbox whose files are too large."""
ORDER_TERMINATE, ORDER_KILL, ORDER_COMMIT = b"T", b"K", b"C"
"""Orders of Hermes to the supervisor of one command; a closed socket means KILL."""
LAUNCHER_DESCRIPTOR = 3
"""The descriptor of the socket to Hermes, in a launcher and in the fork server."""
ROOT_LAUNCHER_FOLDER = "/usr/local/lib/hermes"
"""The copy of this package that sudo runs as root (`root_command`)."""
SUPPORT_OPTION = "--support"
"""Asks the launcher of root what it would run."""
MAX_MESSAGE_BYTES = 1 << 19
MAX_MESSAGE_FILES = 8


def send_message(link: _socket.socket, data: bytes, files: tuple[int, ...] = ()) -> None:
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", files))] if files else []
    link.sendmsg([data], rights, _socket.MSG_NOSIGNAL)


def receive_message(link: _socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its files, which are closed on exec; empty when the socket is closed."""
    files = array.array("i")
    size = files.itemsize
    # A buffer of the largest size would be mapped and unmapped for each message.
    length = link.recv_into(bytearray(1), 1, _socket.MSG_PEEK | _socket.MSG_TRUNC)
    data, rights, _, _ = link.recvmsg(
        length or 1, _socket.CMSG_SPACE(MAX_MESSAGE_FILES * size), _socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, content in rights:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            files.frombytes(content[: len(content) - len(content) % size])
    return data, list(files)


class LauncherRequest:
    """A request to run a program, or to open or replace a file."""

    kind: str = "run"
    argv: tuple[bytes, ...] = ()
    variables: tuple[tuple[bytes, bytes], ...] = ()
    cwd: bytes = b"/"
    terminal: bool = False
    path: bytes = b""
    rules: bytes = b""
    """For the fork server: packed `VerdictRules`."""
    targets: tuple[int, ...] = ()
    """For the fork server: the descriptor numbers of the files; output and errors share 1."""

    def pack(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def unpack(cls, data: bytes) -> "LauncherRequest":
        request = cls()
        vars(request).update(marshal.loads(data))
        return request


class SandboxPlan:
    """Contains only types that `marshal` supports, so that the launcher needs no library."""

    isolation: str = "namespaces"
    """namespaces: made by the launcher; bubblewrap: made by bubblewrap; landlock: none."""
    uid: int = -1
    gid: int = -1
    """The user to become; -1 keeps the current one, without any capability."""
    own_user_namespace: bool = False
    """True for an ordinary user, who can make the other namespaces only in this one."""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    """Real, absolute paths; they are the same inside and outside."""
    owners: tuple[tuple[str, int, int], ...] = ()
    """Writable folders with another owner than `uid`: (path, uid, gid) outside."""
    links: tuple[tuple[str, str], ...] = ()
    """Symbolic links of the root folder, such as /bin -> usr/bin."""
    files: tuple[tuple[str, bytes], ...] = ()
    """Small files made for the sandbox, such as /etc/passwd."""
    network: bool = False
    cgroups: int = 0
    """How many descriptors of cgroups the launcher gets, to join them itself."""
    counted_memory: bool = False
    """True when a cgroup limits the memory of all processes together."""
    memory: int = 0
    processes: int = 0
    cpu_seconds: int = 0
    file_size: int = 0
    open_files: int = 0
    total_size: int = 0
    """Limits in bytes, seconds and numbers; 0 is no limit."""
    opened_ns: int = 0
    """When the sandbox was opened; it may have had other launchers since."""

    def pack(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def unpack(cls, data: bytes) -> "SandboxPlan":
        plan = cls()
        vars(plan).update(marshal.loads(data))
        return plan


WRITABLE_DEVICES = ("null", "zero", "full", "tty", "ptmx")
"""Devices below /dev that every command may open for writing."""


class VerdictRules:
    """Contains only types that `marshal` supports, so that the fork server needs no library."""

    trees: tuple[str, ...] = ()
    """Folders in which everything may change, enforced with Landlock."""
    exact: tuple[str, ...] = ()
    """Paths that may change, with everything below them. The supervisor makes these changes."""
    repositories: tuple[str, ...] = ()
    """The same for git repositories, except their configuration and hooks."""
    rebases: bool = False
    """Whether the steps of a rebase in these repositories may be written."""
    templates: tuple[str, ...] = ()
    """Names with X: mktemp may create files of that form, and the command may use them."""
    beside: tuple[str, ...] = ()
    """Folders in which new files may be made, changed and removed again."""
    files: tuple[str, ...] = ()
    """Devices, pipes and our own files that may be opened for writing."""
    protected: tuple[str, ...] = ()
    """Path prefixes that must not change, even below a folder that may."""
    hidden: tuple[str, ...] = ()
    """Files that appear without their secrets, where mounting is permitted."""
    readable: tuple[str, ...] = ()
    """Files and folders that may be read; empty: all. Enforced with Landlock."""
    refused_reads: tuple[str, ...] = ()
    """Patterns of files that must not be read; `!` marks exceptions. Empty: no read is checked."""
    granted_reads: tuple[str, ...] = ()
    """Those that a program may read all the same, as `program:pattern`; `*` is any program."""
    judged_at: int = 0
    """When the command was judged, in nanoseconds of the clock of file times."""
    judged_files: tuple[str, ...] = ()
    """Names of files, also with their folder, that must not have changed since; `*` stands for any
    characters. Empty: none is checked."""
    judged_folders: tuple[tuple[str, int, int], ...] = ()
    """What was at a path then, by device and number; 0 and 0 for nothing."""
    may_make_judged: bool = False
    """Whether such files may be new where the command may change files."""
    other_repositories: bool = False
    """Whether git may use repositories beside those in `judged_folders`."""
    network: bool = False
    """Whether IPv4 and IPv6 sockets may be made."""
    ports: tuple[int, ...] = ()
    """TCP ports that may be connected to; empty with `network` means every port."""
    listens: bool = False
    """Whether TCP ports may be bound."""
    interfaces: bool = False
    """Whether datagram sockets may be made to ask the kernel about network interfaces."""
    raw_sockets: bool = False
    sockets: tuple[str, ...] = ()
    """Unix sockets that may be connected to; `*` stands for any characters."""
    connecting: tuple[str, ...] = ()
    """Files of the programs that may use the network and these sockets; empty: all programs."""
    device_control: bool = False
    """Whether devices may be asked by ioctl, as by smartctl and lvs."""
    network_control: bool = False
    """Whether the capability to configure the network is kept: nft and iptables list with it."""
    audit_control: bool = False
    """Whether the audit system of the kernel may be asked: auditctl lists its rules with it."""
    sees_processes: bool = False
    """Whether it may inspect other processes: a read-only mount namespace replaces Landlock,
    which would hide them. Needs the right to create one."""
    may_attach: bool = False
    """Whether it may trace other processes, with `sees_processes`."""
    may_signal: bool = False
    hard_links: bool = False
    """Whether a file that has further names may be changed."""
    setuid_files: bool = False
    """Whether files may be made that run with the rights of their owner."""
    max_file_bytes: int = 0
    """How large a file may become that it writes; 0: any size."""
    optional: tuple[str, ...] = ()
    """Paths that a program works without when they are refused; `*` stands for any characters."""
    mark: str = ""
    """The value of HERMES_TREE among the variables of the command."""
    ends_with_hermes: bool = False
    """Whether the supervisor kills the command when Hermes has ended before it."""

    @property
    def checks_reads(self) -> bool:
        """Without Landlock a command gets to hidden files by the root of another process."""
        unhidden = self.sees_processes and self.hidden
        return bool(self.refused_reads or self.judged_files or unhidden)

    @property
    def shape(self) -> bytes:
        """All that the system-call filter depends on."""
        kinds = (
            *(self.network, self.interfaces, self.raw_sockets),
            *(self.may_signal, self.sees_processes, self.may_attach, self.device_control),
            *(self.audit_control, self.listens, self.checks_reads, bool(self.connecting)),
            bool(self.judged_files),
        )
        return bytes(kinds)

    def pack(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def unpack(cls, data: bytes) -> "VerdictRules":
        rules = cls()
        vars(rules).update(marshal.loads(data))
        return rules
