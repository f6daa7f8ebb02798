"""What one sandbox is made of, worked out outside and handed to the launcher in one message."""

import marshal


class Plan:
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
    def unpack(cls, data: bytes) -> "Plan":
        plan = cls()
        vars(plan).update(marshal.loads(data))
        return plan
