"""What stands in the index beside the words of a line: who, when, where, and what it is."""

from datetime import date
from functools import lru_cache

from hermes.core.recall import Line, Search
from hermes.memory.search.analysis import (
    CLOSE,
    OPEN,
    grown_together,
    mark,
    plain_words,
    shortened,
    signatures,
)


def columns(line: Line, *, fact: str = "") -> tuple[str, str, str]:
    """Body, facts and about of one line, as the index takes them."""
    text = shortened(line.text)
    body = plain_words(text)
    facts = [*grown_together(text), plain_words(line.speaker)]
    about = [mark("run", line.run), mark("kind", line.kind), mark("role", line.role)]
    about += [mark("error", each) for each in signatures(text)]
    if fact:
        about.append(mark("fact", fact))
    about.append(_date(line.at.date()))
    return body, "\n".join(facts).strip(), " ".join(about)


def narrowed(wanted: Search) -> list[str]:
    """The marks that a hit must bear, as FTS5 reads them."""
    found = []
    if wanted.session:
        found.append(in_session(wanted.session))
    if wanted.kind is not None:
        found.append(marked("kind", wanted.kind))
    if wanted.role is not None:
        found.append(marked("role", wanted.role))
    return found


def marked(name: str, value: str) -> str:
    return f'"{mark(name, value)}"'


def in_session(run: str) -> str:
    """The run itself, or a run below it: `run/1` belongs to `run`, `run2` does not."""
    own = mark("run", run)
    return f'("{own}" OR "{own.removesuffix(CLOSE)}{OPEN}" *)'


@lru_cache(maxsize=64)
def _date(at: date) -> str:
    return f"{at:%Y-%m-%d %B}"
