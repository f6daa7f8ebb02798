"""Value types of the loader: given values, their origins, and problems."""

from typing import Any, Literal

from hermes.core.messages import Value

SettingSource = Literal[
    "default", "detected", "config file", "env file", "environment", "command line"
]
KeyPath = tuple[str | int, ...]


class SettingOrigin(Value, frozen=True):
    """Where a value came from."""

    source: SettingSource = "default"
    where: str = ""
    """`/home/me/.hermes/config.yaml:12:3`, or the name of a variable or option."""

    def __str__(self) -> str:
        return f"{self.source} ({self.where})" if self.where else self.source


class GivenValue(Value, frozen=True):
    """One value as it was given."""

    path: KeyPath
    value: Any
    origin: SettingOrigin
    is_text: bool = False
    """True when it came as text (a variable, an option) and must be parsed as its type."""
    positions: tuple[str, ...] = ()
    """In a file: the position of each part of the path, sections first."""
    inner_positions: dict[KeyPath, str] = {}
    """In a file: the positions of keys inside a list, relative to it."""


def dotted_key(path: KeyPath) -> str:
    return ".".join(map(str, path))
