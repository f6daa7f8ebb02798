"""Messages between Hermes and the launcher, with open files attached.

Requests are read with `marshal`: only Hermes can write them. What comes back is a letter and a
few bytes: nothing from the inside is ever parsed outside.
"""

import _socket
import array
import marshal

OK, FAILED, ENDED, FILE, FULL = b"+", b"!", b"=", b"@", b"#"
"""First byte of an answer. FULL is ENDED in a sandbox whose files take up too much."""
ASK, KILL, COMMIT = b"T", b"K", b"C"
"""What Hermes may tell the keeper of one command; the end of the line means KILL."""
LONGEST = 1 << 19
MOST_FILES = 8


def send(link: _socket.socket, data: bytes, files: tuple[int, ...] = ()) -> None:
    rights = [(_socket.SOL_SOCKET, _socket.SCM_RIGHTS, array.array("i", files))] if files else []
    link.sendmsg([data], rights, _socket.MSG_NOSIGNAL)


def receive(link: _socket.socket) -> tuple[bytes, list[int]]:
    """The next message and its files, which are closed on exec; empty at the end of the line."""
    files = array.array("i")
    size = files.itemsize
    data, rights, _, _ = link.recvmsg(
        LONGEST, _socket.CMSG_SPACE(MOST_FILES * size), _socket.MSG_CMSG_CLOEXEC
    )
    for level, kind, content in rights:
        if (level, kind) == (_socket.SOL_SOCKET, _socket.SCM_RIGHTS):
            files.frombytes(content[: len(content) - len(content) % size])
    return data, list(files)


class Request:
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
    def unpack(cls, data: bytes) -> "Request":
        request = cls()
        vars(request).update(marshal.loads(data))
        return request
