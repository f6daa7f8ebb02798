"""The first process of a container that carries a box: stands between a pipe and the warden.

The warden and everything behind it are the same as on a machine of one's own. What Hermes does
there from outside (user numbers, an answer's socket) is done here. Frames on the pipe are a length
and what `marshal` makes of it. Imports only what a bare Python has.
"""

import _socket
import marshal
import os
import select
import signal
import tempfile

from hermes.environments.confinement import wire
from hermes.gym.box import warden
from hermes.gym.box.plan import BoxPlan

FIRST_USER, USERS = 1_700_000_000, 65_536
PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SMALL = 1 << 17
OPENED = -1
"""The number of the frame that says how the opening went."""


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as the first process: whoever is left to us
    fields, programs, names = marshal.loads(_frame())
    plan = BoxPlan()
    vars(plan).update(fields)
    _surround(plan, names)
    line, pid = _warden()
    try:
        answer = _introduce(line, pid, plan, programs)
    except OSError as error:
        answer = wire.FAILED + str(error).encode()
    _say(OPENED, answer)
    if answer[:1] == wire.OK:
        _carry(line)
    os._exit(0)


def _surround(plan: BoxPlan, names: tuple[str, ...]) -> None:
    """What of the image its hosts see."""
    links = [(path, os.readlink(path)) for path in PROGRAMS if os.path.islink(path)]  # noqa: PTH114, PTH115
    linked = {path for path, _ in links}
    folders = [path for path in PROGRAMS if path not in linked and os.path.isdir(path)]  # noqa: PTH112
    small, large = [], []
    for path in (f"/etc/{name}" for name in names):
        if os.path.isfile(path) and os.path.getsize(path) <= SMALL:  # noqa: PTH113, PTH202
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                small.append((path, file.read()))
        elif os.path.exists(path):  # noqa: PTH110 - see above
            large.append(path)
    plan.links, plan.common = tuple(links), tuple(small)
    plan.readable = (*folders, *large)


def _warden() -> tuple[_socket.socket, int]:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ours.close()
            null = os.open("/dev/null", os.O_RDWR)
            for target in (0, 1):  # the pipe is ours alone
                os.dup2(null, target)
            if theirs.fileno() != warden.LINE:
                os.dup2(theirs.fileno(), warden.LINE)
                theirs.close()
            warden.main()
        finally:
            os._exit(1)
    theirs.close()
    return ours, pid


def _introduce(
    line: _socket.socket, pid: int, plan: BoxPlan, programs: tuple[tuple[str, bytes], ...]
) -> bytes:
    with tempfile.TemporaryFile() as letter:
        letter.write(marshal.dumps((vars(plan), programs)))
        letter.flush()
        letter.seek(0)
        wire.send(line, b"plan", (letter.fileno(),))
        if line.recv(wire.LONGEST) != warden.READY:
            return wire.FAILED + b"the warden did not come up"
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:  # noqa: PTH123 - see above
                file.write(f"0 {FIRST_USER} {USERS}")
        wire.send(line, b"go")
        return line.recv(wire.LONGEST)


def _carry(line: _socket.socket) -> None:
    """Until the pipe or the box ends. An answer is whole when its socket is closed."""
    poll = select.poll()
    for fd in (0, line.fileno()):
        poll.register(fd, select.POLLIN)
    open_ones: dict[int, tuple[int, _socket.socket, bytearray]] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == line.fileno():
                return
            if fd == 0:
                number, request = marshal.loads(_frame())
                ours = _forward(line, request)
                open_ones[ours.fileno()] = (number, ours, bytearray())
                poll.register(ours.fileno(), select.POLLIN)
                continue
            number, ours, heard = open_ones[fd]
            piece = ours.recv(1 << 18)
            heard += piece
            if not piece:
                poll.unregister(fd)
                del open_ones[fd]
                ours.close()
                _say(number, bytes(heard))


def _forward(line: _socket.socket, request: dict[str, object]) -> _socket.socket:
    ours, theirs = _socket.socketpair()
    wire.send(line, marshal.dumps(request), (theirs.fileno(),))
    theirs.close()
    return ours


def _frame() -> bytes:
    return _exactly(int.from_bytes(_exactly(4), "big"))


def _exactly(count: int) -> bytes:
    read = b""
    while len(read) < count:
        piece = os.read(0, min(count - len(read), 1 << 18))
        if not piece:  # Hermes is gone: so is the container
            os._exit(0)
        read += piece
    return read


def _say(number: int, answer: bytes) -> None:
    body = marshal.dumps((number, answer))
    view = memoryview(len(body).to_bytes(4, "big") + body)
    while view:
        view = view[os.write(1, view) :]
