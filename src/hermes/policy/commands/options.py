"""Splits the words of a command into options, their values, and the rest, as getopt does."""

from collections.abc import Collection
from dataclasses import dataclass, field

from hermes.policy.commands.marks import leads


@dataclass(frozen=True)
class Grammar:
    """Which options take a value and how they are written."""

    values: frozenset[str] = frozenset()
    single: bool = False
    """Long options begin with one dash, as in `find -name` or `terraform -auto-approve`."""
    stops: int | None = None
    """After so many words the rest belongs to another command."""
    at_once: bool = False
    """The rest begins right behind those words, even when it looks like an option."""


@dataclass
class Arguments:
    options: list[tuple[str, str | None]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    """What follows the words, when the grammar stops."""
    loose: list[str] = field(default_factory=list)
    """Words that could turn out to be options."""

    def names(self) -> set[str]:
        return {name for name, _ in self.options}

    def has(self, *names: str) -> bool:
        return any(matches(option, names) for option, _ in self.options)

    def value(self, *names: str) -> str | None:
        found = None
        for option, value in self.options:
            if matches(option, names):
                found = value
        return found

    def values(self, *names: str) -> list[str]:
        return [
            value for option, value in self.options if matches(option, names) and value is not None
        ]


def matches(option: str, names: Collection[str]) -> bool:
    """Whether an option is one of these, perhaps shortened as getopt allows."""
    if option in names:
        return True
    if not option.startswith("--") or len(option) < 3:
        return False
    return any(name.startswith(option) for name in names)


def split(words: list[str], grammar: Grammar) -> Arguments:
    """Options anywhere before `--`; with `stops`, only until the command that follows."""
    found = Arguments()
    at = 0
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            _finish(found, words[at:], grammar)
            return found
        if word.startswith("-") and len(word) > 1:
            at = _option(found, words, at, grammar)
            continue
        if grammar.stops is not None and len(found.words) >= grammar.stops:
            found.rest = words[at - 1 :]
            return found
        if leads(word):
            found.loose.append(word)
        found.words.append(word)
        if grammar.at_once and len(found.words) == grammar.stops:
            found.rest = words[at:]
            return found
    return found


def _finish(found: Arguments, words: list[str], grammar: Grammar) -> None:
    if grammar.stops is None:
        found.words += words
        return
    missing = max(0, grammar.stops - len(found.words))
    found.words += words[:missing]
    found.rest = words[missing:]


def _option(found: Arguments, words: list[str], at: int, grammar: Grammar) -> int:
    word = words[at - 1]
    if word.startswith("--") or (grammar.single and len(word) > 2):
        return _long(found, words, at, grammar)
    for place in range(1, len(word)):
        name = "-" + word[place]
        if name not in grammar.values:
            found.options.append((name, None))
            continue
        value: str | None = word[place + 1 :]
        if not value:
            value = words[at] if at < len(words) else None
            at += 1
        found.options.append((name, value))
        break
    return at


def _long(found: Arguments, words: list[str], at: int, grammar: Grammar) -> int:
    name, equals, value = words[at - 1].partition("=")
    if equals:
        found.options.append((name, value))
    elif name in grammar.values and at < len(words):
        found.options.append((name, words[at]))
        return at + 1
    else:
        found.options.append((name, None))
    return at
