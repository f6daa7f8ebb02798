"""Opens and replaces files for Hermes from within the walls: with the rights of the commands."""

import _socket
import os
import stat

from hermes.environments.confinement import wire
from hermes.environments.confinement.plan import Plan
from hermes.environments.confinement.walls import behind_landlock
from hermes.environments.confinement.wire import Request

NO_ROOM = 28


def serve_file(request: Request, plan: Plan, files: list[int], *, full: bool) -> None:
    """Hand out a descriptor; for a replacement also wait for the word that it is complete."""
    link = _socket.socket(fileno=files[0])
    try:
        if plan.walls == "landlock":
            behind_landlock(plan)
        os.chdir(request.cwd)
        if request.kind == "read":
            wire.send(link, wire.FILE, (_open(request.path),))
        elif full:
            raise OSError(NO_ROOM, "the files of the sandbox take up more than terminal.total_mb")
        else:
            _replace(link, request.path)
    except OSError as error:
        wire.send(link, wire.FAILED + f"{error.errno or 0} {error.strerror or error}".encode())


def _open(path: bytes) -> int:
    """Only a plain file: a pipe or a device could make the reader wait for ever."""
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC)
    mode = os.fstat(fd).st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(21, "is a folder")
    if not stat.S_ISREG(mode):
        raise OSError(22, "is not a plain file")
    return fd


def _replace(link: _socket.socket, path: bytes) -> None:
    target = os.path.realpath(path)
    folder = os.path.dirname(target)  # noqa: PTH120 - pathlib costs the launcher 8 ms
    os.makedirs(folder, exist_ok=True)  # noqa: PTH103
    try:
        there = os.stat(target)  # noqa: PTH116
    except FileNotFoundError:
        mode = 0o644
    else:
        if stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(21, "is a folder")
        mode = there.st_mode & 0o777
    new = os.path.join(folder, b".hermes-%d.new" % os.getpid())  # noqa: PTH118
    os.umask(0)
    fd = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        wire.send(link, wire.FILE, (fd,))
        if wire.receive(link)[0] != wire.COMMIT:
            raise OSError(4, "the writer went away")
        os.replace(new, target)  # noqa: PTH105
    except OSError:
        os.unlink(new)  # noqa: PTH108
        raise
    wire.send(link, wire.OK)
