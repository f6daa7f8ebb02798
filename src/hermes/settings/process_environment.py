"""The sole reader of the process environment; everybody else is handed what they need."""

import os
from collections.abc import Mapping
from pathlib import Path

from hermes.core.errors import SettingsError

HOME_VARIABLES = ("HERMES_HOME", "PERSISTENT_DIR")


def environment_variables() -> dict[str, str]:
    """A copy: what a program exports later does not change settings that were already loaded."""
    return dict(os.environ)


def hermes_home(given: Mapping[str, str]) -> Path:
    """Where config.yaml, .env and the journal live. The folder need not exist."""
    for name in HOME_VARIABLES:
        if given.get(name):
            return _absolute_path(given[name])
    return _absolute_path("~/.hermes")


def is_debugging() -> bool:
    return os.environ.get("HERMES_DEBUG", "") not in ("", "0", "false")


def _absolute_path(text: str) -> Path:
    try:
        return Path(text).expanduser().absolute()
    except RuntimeError as error:  # no HOME and no entry in the password file
        raise SettingsError(
            f"cannot tell where {text} is: {error}. Set HERMES_HOME to a folder of yours."
        ) from error
