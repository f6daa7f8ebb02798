"""How far long work is, on a terminal; elsewhere nothing, so that no log fills with it."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

_WIDTH = 30
_EVERY = 0.1


@contextmanager
def bar(label: str, *, least: int = 0) -> Iterator[Callable[[int, int], None]]:
    """Call what it gives with how much is done and how much there is to do.

    Less than `least` to do is done before anybody has read the bar.
    """
    started: list[int] = []
    drawn = [0.0]

    def show(done: int, total: int) -> None:
        if not started:
            started.append(done)
        now = time.monotonic()
        if not sys.stderr.isatty() or total - started[0] < least:
            return
        if now - drawn[0] < _EVERY and done < total:
            return
        drawn[0] = now
        filled = _WIDTH * done // max(total, 1)
        click.echo(
            f"\r{label} {'█' * filled}{'░' * (_WIDTH - filled)} {done:,} of {total:,}",
            err=True,
            nl=False,
        )

    try:
        yield show
    finally:
        if drawn[0]:
            click.echo(err=True)
