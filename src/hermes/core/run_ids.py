"""Identifiers: made, found by a part of them, and the run that the current code works for.

Identifiers are short, sortable by time and safe as a file name.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import TypeVar

from hermes.core.errors import HermesError

Found = TypeVar("Found")


def new_id(prefix: str) -> str:
    return f"{prefix}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


_CURRENT_RUN: ContextVar[str] = ContextVar("run", default="")


def current_run() -> str:
    return _CURRENT_RUN.get()


@contextmanager
def working_for_run(run: str) -> Iterator[None]:
    token = _CURRENT_RUN.set(run)
    try:
        yield
    finally:
        _CURRENT_RUN.reset(token)


def find_unique(
    candidates: Iterable[Found],
    wanted: str,
    *tests: Callable[[Found], bool],
    id_of: Callable[[Found], str],
    kind: str,
    list_command: str,
) -> Found:
    """Return the candidate that matches the first successful test. Raises `HermesError`."""
    known = list(candidates)
    for test in tests:
        found = [each for each in known if test(each)]
        if len(found) == 1:
            return found[0]
        if found:
            names = ", ".join(map(id_of, found[:5]))
            raise HermesError(f"{wanted!r} may be {names}; give more of it")
    raise HermesError(f"there is no {kind} {wanted!r}; `{list_command}` shows them")
