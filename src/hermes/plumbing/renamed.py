"""Finds what other authors import by a name of an earlier version, and reports the new name."""

import logging
from collections.abc import Mapping
from functools import cache
from importlib import import_module
from typing import Any

_log = logging.getLogger(__name__)


def find_renamed(old_module: str, new_module: str, names: Mapping[str, str], name: str) -> Any:
    """For `__getattr__` of a module. Raises `AttributeError` for a name that it never had.

    A log record and not a warning: a plug-in of the earlier version must also load in a process
    that treats warnings as errors.
    """
    if name not in names:
        raise AttributeError(f"module {old_module!r} has no attribute {name!r}")
    report_renamed(f"{old_module}.{name}", f"{new_module}.{names[name]}")
    return getattr(import_module(new_module), names[name])


@cache
def report_renamed(old: str, new: str) -> None:
    """Once for each name in a process."""
    _log.warning("%s is now %s; the old name will be removed", old, new)
