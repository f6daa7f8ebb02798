"""Reads the process environment; no other module does."""

import os
from collections.abc import Mapping
from pathlib import Path

from hermes.core.errors import SettingsError

HOME_VARIABLES = ("HERMES_HOME", "PERSISTENT_DIR")


def environment_variables() -> dict[str, str]:
    """Return a copy, so that later changes do not affect loaded settings."""
    return dict(os.environ)


def hermes_home(given: Mapping[str, str]) -> Path:
    """The folder of config.yaml, .env and the journal. It need not exist."""
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
            f"cannot resolve {text}: {error}. Set HERMES_HOME to a folder of yours."
        ) from error
