"""What was set, by whom, and what is wrong with it: the small values the loader speaks in."""

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
    """One value as somebody wrote it."""

    path: KeyPath
    value: Any
    origin: SettingOrigin
    text: bool = False
    """True when it came as words (a variable, an option) and still has to be read as its type."""
    places: tuple[str, ...] = ()
    """In a file: where each part of the path stands, sections first."""


class SettingProblem(Value, frozen=True):
    """Something the operator must mend: where it stands, what is wrong, what to do."""

    where: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.hint})" if self.hint else text


def dotted_key(path: KeyPath) -> str:
    return ".".join(map(str, path))
