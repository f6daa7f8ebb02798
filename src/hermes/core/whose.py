"""In whose name the current task works: for things that are shared by many runs at once.

A model client serves every conversation of a house; when one of its calls fails, this says in
which run. It follows tasks by itself, as context variables do.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_RUN: ContextVar[str] = ContextVar("run", default="")


def whose_run() -> str:
    return _RUN.get()


@contextmanager
def in_the_name_of(run: str) -> Iterator[None]:
    token = _RUN.set(run)
    try:
        yield
    finally:
        _RUN.reset(token)
