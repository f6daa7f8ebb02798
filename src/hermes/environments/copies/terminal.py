"""Joins the terminal of this process with a new one, for an interactive program in a copy."""

import fcntl
import os
import select
import sys
import termios
import tty
from collections.abc import Callable

PIECE_BYTES = 1 << 16


def open_terminal() -> tuple[int, int]:
    """Both ends of a new terminal of the size of ours."""
    outer, inner = os.openpty()
    try:
        size = fcntl.ioctl(sys.stdin.fileno(), termios.TIOCGWINSZ, bytes(8))
        fcntl.ioctl(inner, termios.TIOCSWINSZ, size)
    except OSError:
        pass  # ours has no size
    return outer, inner


def join_terminals(outer: int, has_ended: Callable[[], bool]) -> None:
    """Passes on what is typed and printed until the program has ended."""
    typed = sys.stdin.fileno()
    before = termios.tcgetattr(typed)
    tty.setraw(typed)
    try:
        while not has_ended():
            ready, _, _ = select.select([typed, outer], [], [], 0.2)
            if outer in ready and not _pass_on(outer, sys.stdout.fileno()):
                return
            if typed in ready and not _pass_on(typed, outer):
                return
    finally:
        termios.tcsetattr(typed, termios.TCSADRAIN, before)


def _pass_on(source: int, target: int) -> bool:
    try:
        piece = os.read(source, PIECE_BYTES)
    except OSError:  # the last program has closed the terminal
        return False
    view = memoryview(piece)
    while view:
        view = view[os.write(target, view) :]
    return bool(piece)
