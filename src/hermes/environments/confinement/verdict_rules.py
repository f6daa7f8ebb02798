"""What one confined command may do, in the form that the fork server and the supervisor read.

`environments.confined` works it out from a `Profile` of the policy: every path here is absolute
and real, as found just before the command starts.
"""

import marshal

DEVICES = ("null", "zero", "full", "tty", "ptmx")
"""Devices below /dev that every command may open for writing."""


class VerdictRules:
    """Only what `marshal` can carry, so that the fork server needs no library to read it."""

    trees: tuple[str, ...] = ()
    """Folders in which everything may change. The kernel holds this bound by Landlock."""
    exact: tuple[str, ...] = ()
    """Paths that may change, with all below them. The supervisor carries these changes out."""
    repositories: tuple[str, ...] = ()
    """The same for git repositories, but for their configuration and hooks."""
    templates: tuple[str, ...] = ()
    """Names with X in them: mktemp may make new files of that form, to be used from then on."""
    beside: tuple[str, ...] = ()
    """Folders in which new files may be made, changed and removed again."""
    files: tuple[str, ...] = ()
    """Devices, pipes and files of our own that may be opened for writing."""
    protected: tuple[str, ...] = ()
    """Beginnings of paths that stay as they are, even below a folder that may change."""
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
            self.audit_control,
        )
        return bytes(kinds)

    def pack(self) -> bytes:
        return marshal.dumps(vars(self))

    @classmethod
    def unpack(cls, data: bytes) -> "VerdictRules":
        rules = cls()
        vars(rules).update(marshal.loads(data))
        return rules
