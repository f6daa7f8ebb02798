"""Chooses what a command may see of our own variables: named ones, and never our keys."""

import sys
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import cast

from hermes.core.plugins import load_plugin
from hermes.core.protocols import Environment
from hermes.environments.settings import TerminalSettings

ALWAYS_PASSED_VARIABLES = (
    "PATH", "HOME", "USER", "LOGNAME", "SHELL", "LANG", "LANGUAGE", "LC_*", "TZ", "TMPDIR",
    "SSL_CERT_FILE", "SSL_CERT_DIR",
)  # fmt: skip
"""What nearly every program wants and nobody minds."""

_SECRET_NAME_PATTERNS = (
    "*KEY", "*KEY_ID", "*TOKEN*", "*SECRET*", "*PASSWORD*", "*PASSWD*", "*PASSPHRASE*",
    "*CREDENTIAL*", "*_DSN", "*_AUTH", "DATABASE_URL",
)  # fmt: skip


def select_variables(
    ours: Mapping[str, str], granted: Sequence[str] = (), withheld: Collection[str] = ()
) -> dict[str, str]:
    """The variables of a command.

    `granted` comes from the operator: an exact name is passed even if it looks like a secret, a
    pattern never reaches one. `withheld` are the names of our own keys; nothing passes those.
    """
    chosen = {"TERM": "dumb"}
    for name, value in ours.items():
        if name in withheld:
            continue
        if name in granted or (
            not _looks_secret(name) and _matches(name, (*ALWAYS_PASSED_VARIABLES, *granted))
        ):
            chosen[name] = value
    chosen.setdefault("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
    return chosen


def _looks_secret(name: str) -> bool:
    return _matches(name.upper(), _SECRET_NAME_PATTERNS)


def _matches(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


@dataclass(frozen=True)
class EnvironmentOpening:
    """All that a kind of environment may know."""

    settings: TerminalSettings
    directory: Path
    """The folder the person is in: what `terminal.cwd: .` means on this machine."""
    home: Path
    """Where we may keep what must survive us."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What commands get to see; none of our keys is in it."""
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Keys of the services that lend a place."""

    @property
    def folder(self) -> Path:
        """The first working folder on this machine."""
        return self.directory / Path(self.settings.cwd).expanduser()


async def why_not(kind: str, opening: EnvironmentOpening) -> str | None:
    """What a kind of place lacks here; None when nothing is known to be missing."""
    made = load_plugin("environments", kind)
    look: Callable[[EnvironmentOpening], Awaitable[str | None]] | None
    look = getattr(sys.modules[made.__module__], "why_not", None)
    return await look(opening) if look else None


def open_environment(opening: EnvironmentOpening) -> Environment:
    """Raises `SettingsError` for a kind that does not exist; entering may raise `EnvironmentFailed`."""
    return cast(Environment, load_plugin("environments", opening.settings.backend)(opening))
