"""The first process of a container with a box in it: relays between a pipe and box init.

Box init and its hosts are the same as in a local box. What Hermes itself does for a local box
(write the maps of user ids, make a socket for each reply) is done here. A frame on the pipe is a
length and a `marshal` of the content. Imports only the standard library.
"""

import _socket
import marshal
import os
import select
import signal

from hermes.environments.boxes import box_init, host_requests
from hermes.environments.boxes.backend import BoxPlan
from hermes.environments.confinement import messages

SYSTEM_FOLDERS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
MAX_COPIED_FILE_BYTES = 1 << 17
OPEN_REPLY_NUMBER = -1
"""Number of the frame with the result of opening the box."""


def main() -> None:
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the first process inherits orphans
    fields, programs, names = marshal.loads(_read_frame())
    plan = BoxPlan()
    vars(plan).update(fields)
    _add_image_paths(plan, names)
    link, pid = _start_box_init()
    try:
        answer = _open_box(link, pid, plan, programs)
    except OSError as error:
        answer = messages.ANSWER_FAILED + str(error).encode()
    _write_frame(OPEN_REPLY_NUMBER, answer)
    if answer[:1] == messages.ANSWER_OK:
        _relay_requests(link)
    os._exit(0)


def _add_image_paths(plan: BoxPlan, names: tuple[str, ...]) -> None:
    """Adds the files of the image that the hosts see."""
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
            for target in (0, 1):  # box init must not use the pipe
                os.dup2(null, target)
            if theirs.fileno() != box_init.LINK_FD:
                os.dup2(theirs.fileno(), box_init.LINK_FD)
                theirs.close()
            box_init.main()
        finally:
            os._exit(1)
    theirs.close()
    return ours, pid


def _open_box(
    link: _socket.socket, pid: int, plan: BoxPlan, programs: tuple[tuple[str, bytes], ...]
) -> bytes:
    box_init.send_plan(link, plan, programs)
    if link.recv(messages.MAX_MESSAGE_BYTES) != box_init.ID_MAP_REQUEST:
        return messages.ANSWER_FAILED + b"box init did not start"
    for name in ("uid_map", "gid_map"):
        with open(f"/proc/{pid}/{name}", "w") as file:  # noqa: PTH123 - see above
            file.write(f"0 {box_init.FIRST_OUTER_UID} {box_init.UID_COUNT}")
    messages.send_message(link, b"go")
    return link.recv(messages.MAX_MESSAGE_BYTES)


def _relay_requests(link: _socket.socket) -> None:
    """Until the pipe or the box ends. A reply is complete when its socket is closed."""
    poll = select.poll()
    for fd in (0, link.fileno()):
        poll.register(fd, select.POLLIN)
    replies: dict[int, tuple[int, _socket.socket, bytearray]] = {}
    while True:
        for fd, _ in poll.poll():
            if fd == link.fileno():
                return
            if fd == 0:
                number, request = marshal.loads(_read_frame())
                ours = _forward_request(link, request)
                replies[ours.fileno()] = (number, ours, bytearray())
                poll.register(ours.fileno(), select.POLLIN)
                continue
            number, ours, reply = replies[fd]
            piece = ours.recv(1 << 18)
            reply += piece
            if not piece:
                poll.unregister(fd)
                del replies[fd]
                ours.close()
                _write_frame(number, bytes(reply))


def _forward_request(link: _socket.socket, request: dict[str, object]) -> _socket.socket:
    ours, theirs = _socket.socketpair()
    host_requests.send_request(link, request, theirs.fileno())
    theirs.close()
    return ours


def _read_frame() -> bytes:
    return _read_exactly(int.from_bytes(_read_exactly(4), "big"))


def _read_exactly(count: int) -> bytes:
    read = b""
    while len(read) < count:
        piece = os.read(0, min(count - len(read), 1 << 18))
        if not piece:  # Hermes has ended: the container ends too
            os._exit(0)
        read += piece
    return read


def _write_frame(number: int, answer: bytes) -> None:
    body = marshal.dumps((number, answer))
    view = memoryview(len(body).to_bytes(4, "big") + body)
    while view:
        view = view[os.write(1, view) :]
