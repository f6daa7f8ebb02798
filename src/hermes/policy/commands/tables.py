"""Programs and what their verbs and options do, read from the YAML beside this file on demand.

A key names programs (`cat, tac, nl`) or a program and one of its verbs (`kubectl logs`); its value
is a list of effects in words, or a `Spec`. Each entry is parsed when it is first asked for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import translate
from functools import cache, cached_property
from importlib.resources import files

import msgspec
import yaml

from hermes.policy.commands.options import Grammar

FILES = (
    "shell", "files", "text", "system", "network", "wrappers", "interpreters", "containers",
    "kubernetes", "versions", "packages", "cloud", "databases", "services", "storage",
)  # fmt: skip


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry. Every list is a string of words, to keep the files readable."""

    does: str = ""
    """Effects of running it at all."""
    same: str = ""
    """It is another name of this program."""
    values: str = ""
    """Options that take a value."""
    flags: str = ""
    """Options that take none here, though they do for the program."""
    single: bool = False
    """Long options begin with one dash."""
    options: dict[str, str] = {}
    """Options, perhaps after @verb, and what they add: effects, or what their value is."""
    verbs: dict[str, str] = {}
    """Effects, and the verbs that have them, separated by commas; `*` in a verb is a wildcard."""
    args: str = "reads"
    """What the words are: reads names text writes deletes dest second pattern filter pager runs
    shell code script."""
    skip: int = 0
    """Words before the command that it runs."""
    alone: str = ""
    """Effects without any word."""
    stdin: str = ""
    """What it makes of its input: shell code sql sends."""
    special: str = ""
    """The function that knows it better than a table could."""
    gives: str = ""
    """`names` when its output is names or numbers of the system's making."""
    trusts: bool = False
    """No option of it is worse than the verb, so words only known at run time are no danger."""
    harmless: str = ""
    """If given, every option that is not among these is unknown."""
    strict: bool = False
    """Options are all obeyed: `only` holds when no other option stands beside it."""
    escapes: bool = False
    """People can get a shell out of it by a key."""
    target: str = ""
    """What its first word names: host, container or service."""


@dataclass(frozen=True)
class OptionRule:
    verb: re.Pattern[str] | None
    names: frozenset[str]
    does: tuple[str, ...]


@dataclass(frozen=True)
class VerbRule:
    """A phrase: `*` is part of a word, a first `**` any words before, a last `$` no more words."""

    words: tuple[str, ...]
    does: tuple[str, ...]

    @property
    def anywhere(self) -> bool:
        return self.words[0] == "**"

    @property
    def weight(self) -> tuple[int, int]:
        """Longer phrases first, and of those the ones without a wildcard."""
        return -len(self.words), sum("*" in word for word in self.words)

    def fits(self, words: list[str]) -> bool:
        if self.anywhere:
            return any(_begins(words[at:], self.words[1:]) for at in range(len(words)))
        return _begins(words, self.words)


def _begins(words: list[str], phrase: tuple[str, ...]) -> bool:
    if phrase[-1] == "$":
        return len(words) == len(phrase) - 1 and _begins(words, phrase[:-1])
    return len(words) >= len(phrase) and all(map(_same, words, phrase))


def _same(word: str, pattern: str) -> bool:
    if "*" not in pattern:
        return word == pattern
    before, _, after = pattern.partition("*")
    return word.startswith(before) and word.endswith(after) and len(word) >= len(pattern) - 1


@dataclass(frozen=True)
class Program:
    """A compiled entry."""

    name: str
    spec: Spec

    @cached_property
    def grammar(self) -> Grammar:
        stops = self.spec.skip if self.spec.args in ("runs", "shell") else None
        return Grammar(frozenset(self.spec.values.split()), self.spec.single, stops)

    @cached_property
    def does(self) -> tuple[str, ...]:
        return tuple(self.spec.does.split())

    @cached_property
    def option_rules(self) -> tuple[OptionRule, ...]:
        return tuple(_option_rule(key, value) for key, value in self.spec.options.items())

    @cached_property
    def verb_rules(self) -> tuple[VerbRule, ...]:
        rules = [
            VerbRule(tuple(phrase.split()), tuple(effects.split()))
            for effects, phrases in self.spec.verbs.items()
            for phrase in phrases.split(",")
            if phrase.strip()
        ]
        return tuple(sorted(rules, key=lambda rule: rule.weight))

    def verb(self, words: list[str]) -> tuple[str, ...] | None:
        """Effects of the best phrase that the words begin with, and of every phrase with **."""
        best: tuple[str, ...] = ()
        anywhere: list[str] = []
        for rule in self.verb_rules:
            if (rule.anywhere or not best) and rule.fits(words[:8]):
                if rule.anywhere:
                    anywhere += rule.does
                else:
                    best = rule.does
        return tuple(dict.fromkeys((*best, *anywhere))) or None

    def under(self, parent: "Program") -> Grammar:
        """The grammar of a verb that has an entry of its own."""
        values = (parent.grammar.values | self.grammar.values) - set(self.spec.flags.split())
        return Grammar(values, parent.spec.single or self.spec.single, self.grammar.stops)


def _option_rule(key: str, value: str) -> OptionRule:
    words = key.split()
    verb = None
    if words[0].startswith("@"):
        verb = re.compile("|".join(translate(one) for one in words[0][1:].split(",")))
        words = words[1:]
    return OptionRule(verb, frozenset(words), tuple(value.split()))


@cache
def _entries() -> dict[str, str]:
    """The text of each entry by the names it has; an entry begins where a line does."""
    found: dict[str, str] = {}
    folder = files("hermes.policy.commands") / "tables"
    for name in FILES:
        for entry in _ENTRY.split((folder / f"{name}.yaml").read_text()):
            if key := _KEY.match(entry):
                names = map(str.strip, key.group(1).split(","))
                found.update(dict.fromkeys(names, entry[key.end() :]))
    return found


_ENTRY = re.compile(r"\n(?=[^ #\n])")
_KEY = re.compile(r'"?([^#\n][^\n]*?)"?:(?=[ \n])')


def _parse(text: str) -> object:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return yaml.load(text, Loader=loader)


@cache
def program(name: str) -> Program | None:
    """The entry of a program, or of `program verb`."""
    text = _entries().get(name)
    if text is None:
        return None
    raw = _parse(text)
    spec = Spec(does=raw) if isinstance(raw, str) else msgspec.convert(raw, Spec)
    return program(spec.same) if spec.same else Program(name, spec)


def names() -> Iterator[str]:
    """Every program that some table knows."""
    return iter(_entries())


def decides_code(variable: str) -> bool:
    """Whether programs let this variable choose code, libraries, options or editors."""
    return any(
        variable == one or (one.endswith("*") and variable.startswith(one[:-1]))
        for one in lists()["variables"]
    )


@cache
def lists() -> dict[str, list[str]]:
    """The lists that are not about programs: secrets, system trees, telling variables."""
    text = (files("hermes.policy.commands") / "tables" / "places.yaml").read_text()
    return msgspec.convert(_parse(text), dict[str, list[str]])
