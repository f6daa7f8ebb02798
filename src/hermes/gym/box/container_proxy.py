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

from hermes.environments.confinement import messages
from hermes.gym.box import box_init
from hermes.gym.box.backend import BoxPlan

FIRST_OUTER_UID, UID_COUNT = 1_700_000_000, 65_536
SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
MAX_COPIED_FILE_BYTES = 1 << 17
OPEN_REPLY_NUMBER = -1
"""The number of the frame that says how the opening went."""


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # as the first process: whoever is left to us
    fields, programs, names = marshal.loads(_read_frame())
    plan = BoxPlan()
    vars(plan).update(fields)
    _add_image_paths(plan, names)
    line, pid = _start_box_init()
    try:
        answer = _send_plan(line, pid, plan, programs)
    except OSError as error:
        answer = messages.ANSWER_FAILED + str(error).encode()
    _write_frame(OPEN_REPLY_NUMBER, answer)
    if answer[:1] == messages.ANSWER_OK:
        _relay_requests(line)
    os._exit(0)


def _add_image_paths(plan: BoxPlan, names: tuple[str, ...]) -> None:
    """What of the image its hosts see."""
    links = [(path, os.readlink(path)) for path in SYSTEM_FOLDERS if os.path.islink(path)]  # noqa: PTH114, PTH115
    linked = {path for path, _ in links}
    folders = [path for path in SYSTEM_FOLDERS if path not in linked and os.path.isdir(path)]  # noqa: PTH112
    small, large = [], []
    for path in (f"/etc/{name}" for name in names):
        if os.path.isfile(path) and os.path.getsize(path) <= MAX_COPIED_FILE_BYTES:  # noqa: PTH113, PTH202
            with open(path, "rb") as file:  # noqa: PTH123 - pathlib is slow to import
                small.append((path, file.read()))
        elif os.path.exists(path):  # noqa: PTH110 - see above
            large.append(path)
    plan.links, plan.common = tuple(links), tuple(small)
    plan.readable = (*folders, *large)


def _start_box_init() -> tuple[_socket.socket, int]:
    ours, theirs = _socket.socketpair(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    pid = os.fork()
    if pid == 0:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            ours.close()
            null = os.open("/dev/null", os.O_RDWR)
            for target in (0, 1):  # the pipe is ours alone
                os.dup2(null, target)
            if theirs.fileno() != box_init.LINK_FD:
                os.dup2(theirs.fileno(), box_init.LINK_FD)
                theirs.close()
            box_init.main()
        finally:
            os._exit(1)
    theirs.close()
    return ours, pid


def _send_plan(
    line: _socket.socket, pid: int, plan: BoxPlan, programs: tuple[tuple[str, bytes], ...]
) -> bytes:
    with tempfile.TemporaryFile() as letter:
        letter.write(marshal.dumps((vars(plan), programs)))
        letter.flush()
        letter.seek(0)
        messages.send_message(line, b"plan", (letter.fileno(),))
        if line.recv(messages.MAX_MESSAGE_BYTES) != box_init.ID_MAP_REQUEST:
            return messages.ANSWER_FAILED + b"the warden did not come up"
        for name in ("uid_map", "gid_map"):
            with open(f"/proc/{pid}/{name}", "w") as file:  # noqa: PTH123 - see above
                file.write(f"0 {FIRST_OUTER_UID} {UID_COUNT}")
        messages.send_message(line, b"go")
        return line.recv(messages.MAX_MESSAGE_BYTES)


def _relay_requests(line: _socket.socket) -> None:
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
                number, request = marshal.loads(_read_frame())
                ours = _forward_request(line, request)
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
                _write_frame(number, bytes(heard))


def _forward_request(line: _socket.socket, request: dict[str, object]) -> _socket.socket:
    ours, theirs = _socket.socketpair()
    messages.send_message(line, marshal.dumps(request), (theirs.fileno(),))
    theirs.close()
    return ours


def _read_frame() -> bytes:
    return _read_exactly(int.from_bytes(_read_exactly(4), "big"))


def _read_exactly(count: int) -> bytes:
    read = b""
    while len(read) < count:
        piece = os.read(0, min(count - len(read), 1 << 18))
        if not piece:  # Hermes is gone: so is the container
            os._exit(0)
        read += piece
    return read


def _write_frame(number: int, answer: bytes) -> None:
    body = marshal.dumps((number, answer))
    view = memoryview(len(body).to_bytes(4, "big") + body)
    while view:
        view = view[os.write(1, view) :]
