"""From settings to a place: finds the kind by name and hands it what it needs.

A kind is a plug-in of the group `hermes.environments`: a callable that takes an `Opening` and
returns an `Environment`. It is loaded when it is first wanted. Beside it, in its module, there may
be an async `why_not(opening)` that says what is missing on this machine.
"""

import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from hermes.core.plugins import load
from hermes.core.protocols import Environment
from hermes.environments.settings import TerminalSettings


@dataclass(frozen=True)
class Opening:
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


async def why_not(kind: str, opening: Opening) -> str | None:
    """What a kind of place lacks here; None when nothing is known to be missing."""
    made = load("environments", kind)
    look: Callable[[Opening], Awaitable[str | None]] | None
    look = getattr(sys.modules[made.__module__], "why_not", None)
    return await look(opening) if look else None


def open_environment(opening: Opening) -> Environment:
    """Raises `SettingsError` for a kind that does not exist; entering may raise `PlaceFailed`."""
    return cast(Environment, load("environments", opening.settings.backend)(opening))
