"""Identifiers for runs, and the run that the current code works for.

Identifiers are short, sortable by time and safe as a file name.
"""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime


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
