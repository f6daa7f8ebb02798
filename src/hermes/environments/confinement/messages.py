"""Messages between Hermes and the launcher, with open files attached.

Requests are read with `marshal`: only Hermes can write them. What comes back is a letter and a
few bytes: nothing from the inside is ever parsed outside.
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
"""First byte of an answer. FULL is ENDED in a sandbox whose files take up too much."""
ORDER_TERMINATE, ORDER_KILL, ORDER_COMMIT = b"T", b"K", b"C"
"""What Hermes may tell the keeper of one command; the end of the line means KILL."""
MAX_MESSAGE_BYTES = 1 << 19
MAX_MESSAGE_FILES = 8


def send_message(link: _socket.socket, data: bytes, files: tuple[int, ...] = ()) -> None:
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", files))] if files else []
    link.sendmsg([data], rights, _socket.MSG_NOSIGNAL)


def receive_message(link: _socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its files, which are closed on exec; empty at the end of the line."""
    files = array.array("i")
    size = files.itemsize
    data, rights, _, _ = link.recvmsg(
        MAX_MESSAGE_BYTES, _socket.CMSG_SPACE(MAX_MESSAGE_FILES * size), _socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, content in rights:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            files.frombytes(content[: len(content) - len(content) % size])
    return data, list(files)


class LauncherRequest:
    """One thing to do inside: run a program, or open or replace a file."""

    kind: str = "run"
    argv: tuple[bytes, ...] = ()
    variables: tuple[tuple[bytes, bytes], ...] = ()
    cwd: bytes = b"/"
    terminal: bool = False
    path: bytes = b""
    rules: bytes = b""
    """Of the fork server: packed `VerdictRules`."""
    targets: tuple[int, ...] = ()
    """Of the fork server: the numbers that the given files get; output and errors share 1."""

    def pack(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def unpack(cls, data: bytes) -> "LauncherRequest":
        request = cls()
        vars(request).update(marshal.loads(data))
        return request


class SandboxPlan:
    """Only what `marshal` can carry, so that the launcher needs no library to read it."""

    walls: str = "namespaces"
    """namespaces: we make them; bubblewrap: it has made them; landlock: there are none."""
    uid: int = -1
    gid: int = -1
    """Whom to become inside; -1 stays who we are, without any capability."""
    own_user_namespace: bool = False
    """True for an ordinary user, who gets the other namespaces only through this one."""
    readable: tuple[str, ...] = ()
    writable: tuple[str, ...] = ()
    """Real, absolute paths; each is found inside under the name it has outside."""
    owners: tuple[tuple[str, int, int], ...] = ()
    """Writable folders that belong to somebody else than `uid`: (path, uid, gid) outside."""
    links: tuple[tuple[str, str], ...] = ()
    """Symbolic links of the root folder, such as /bin -> usr/bin."""
    files: tuple[tuple[str, bytes], ...] = ()
    """Small files made for the sandbox, such as /etc/passwd."""
    network: bool = False
    cgroups: int = 0
    """How many descriptors of cgroups we were given, to enter them ourselves."""
    counted_memory: bool = False
    """True when a cgroup limits the memory of all processes together."""
    memory: int = 0
    processes: int = 0
    cpu_seconds: int = 0
    file_size: int = 0
    open_files: int = 0
    total_size: int = 0
    """Limits in bytes, seconds and pieces; 0 is none."""
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
    """Only what `marshal` can carry, so that the fork server needs no library to read it."""

    trees: tuple[str, ...] = ()
    """Folders in which everything may change. The kernel holds this bound by Landlock."""
    exact: tuple[str, ...] = ()
    """Paths that may change, with all below them. The supervisor carries these changes out."""
    repositories: tuple[str, ...] = ()
    """The same for git repositories, but for their configuration and hooks."""
    rebases: bool = False
    """Whether the steps of a rebase in these repositories may be written."""
    templates: tuple[str, ...] = ()
    """Names with X in them: mktemp may make new files of that form, to be used from then on."""
    beside: tuple[str, ...] = ()
    """Folders in which new files may be made, changed and removed again."""
    files: tuple[str, ...] = ()
    """Devices, pipes and files of our own that may be opened for writing."""
    protected: tuple[str, ...] = ()
    """Beginnings of paths that stay as they are, even below a folder that may change."""
    hidden: tuple[str, ...] = ()
    """Files that are found empty, where the right to mount is there."""
    network: bool = False
    """Whether IPv4 and IPv6 sockets may be made."""
    ports: tuple[int, ...] = ()
    """TCP ports that may be connected to; with `network` and none here, every port."""
    listens: bool = False
    """Whether TCP ports may be bound."""
    interfaces: bool = False
    """Whether datagram sockets may be made to ask the kernel about network interfaces."""
    raw_sockets: bool = False
    sockets: tuple[str, ...] = ()
    """Unix sockets that may be connected to; `*` stands for any characters."""
    device_control: bool = False
    """Whether devices may be asked by ioctl, as by smartctl and lvs."""
    network_control: bool = False
    """Whether the capability to configure the network is kept: nft and iptables list with it."""
    audit_control: bool = False
    """Whether the audit system of the kernel may be asked: auditctl lists its rules with it."""
    sees_processes: bool = False
    """Whether it may look into other processes: a read-only mount namespace replaces Landlock,
    which would hide them. Needs the right to make one."""
    may_attach: bool = False
    """Whether it may trace other processes, with `sees_processes`."""
    may_signal: bool = False
    hard_links: bool = False
    """Whether a file that has further names may be changed."""
    optional: tuple[str, ...] = ()
    """What a program tries and does without when it is refused; `*` stands for any characters."""
    mark: str = ""
    """The value of HERMES_TREE among the variables of the command."""

    @property
    def shape(self) -> bytes:
        """All that the system-call filter depends on."""
        kinds = (
            *(self.network, self.interfaces, self.raw_sockets),
            *(self.may_signal, self.sees_processes, self.may_attach, self.device_control),
            *(self.audit_control, self.listens),
        )
        return bytes(kinds)

    def pack(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def unpack(cls, data: bytes) -> "VerdictRules":
        rules = cls()
        vars(rules).update(marshal.loads(data))
        return rules
