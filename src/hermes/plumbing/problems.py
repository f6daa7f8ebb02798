"""One problem in a file that a person wrote: where it is, what is wrong, and what may be meant."""

from collections.abc import Iterable

import msgspec


class Problem(msgspec.Struct, frozen=True):
    file: str
    """Or another origin, such as the name of a variable."""
    line: int
    """0 when the whole file is meant."""
    cause: str
    fatal: bool = True
    """False: the file can be used, but should be corrected."""
    column: int = 0
    """0 when the whole line is meant."""
    suggestion: str = ""

    def __str__(self) -> str:
        text = self.text if self.fatal else f"note: {self.text}"
        return f"{self.where}: {text}" if self.where else text

    @property
    def where(self) -> str:
        parts = (self.file, self.line, self.column)
        return ":".join(str(part) for part in parts if part)

    @property
    def text(self) -> str:
        return f"{self.cause}; {self.suggestion}" if self.suggestion else self.cause

    def to_json(self) -> dict[str, object]:
        return {"file": self.file, "line": self.line, "cause": self.text, "fatal": self.fatal}


def closest_name(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """The most similar of the known names; empty when none is similar."""
    from difflib import get_close_matches  # noqa: PLC0415 - only for errors

    return next(iter(get_close_matches(word, list(known), n=1, cutoff=cutoff)), "")


def suggest_name(word: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """`did you mean …?`, or all names when none is similar; empty when there are none."""
    names = list(known)
    near = closest_name(word, names, cutoff=cutoff)
    if near:
        return f"did you mean {near}?"
    return f"there are: {', '.join(names)}" if names else ""
