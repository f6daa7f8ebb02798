"""What was set, by whom, and what is wrong with it: the small values the loader speaks in."""

from typing import Any, Literal

from hermes.core.messages import Value

Source = Literal["default", "detected", "config file", "env file", "environment", "command line"]
Path = tuple[str | int, ...]


class Origin(Value, frozen=True):
    """Where a value came from."""

    source: Source = "default"
    where: str = ""
    """`/home/me/.hermes/config.yaml:12:3`, or the name of a variable or option."""

    def __str__(self) -> str:
        return f"{self.source} ({self.where})" if self.where else self.source


class Given(Value, frozen=True):
    """One value as somebody wrote it."""

    path: Path
    value: Any
    origin: Origin
    text: bool = False
    """True when it came as words (a variable, an option) and still has to be read as its type."""
    places: tuple[str, ...] = ()
    """In a file: where each part of the path stands, sections first."""


class Problem(Value, frozen=True):
    """Something the operator must mend: where it stands, what is wrong, what to do."""

    where: str
    what: str
    hint: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.hint})" if self.hint else text


def dotted(path: Path) -> str:
    return ".".join(map(str, path))
