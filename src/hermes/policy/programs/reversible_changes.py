"""Changes of services that are known to be reversible and bounded, by a table of their words."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

import msgspec

from hermes.plumbing.yaml_document import load_plain_yaml
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import is_fully_known

_MAX_REPEATED_WORDS = 5
_WRAPPERS = word_set("sudo timeout nice ionice setsid nohup env sh bash")
"""Wrappers that run a command once and here. A restart by `watch` or `xargs` is not bounded."""
_ENDLESS_LOOP = re.compile(r"\b(?:while|until)\b|\bfor\s*\(\(")


class _ReversibleProgram(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    commands: tuple[str, ...]
    options: str = ""


class _ReversibleTable(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    classes: dict[str, str]
    programs: dict[str, _ReversibleProgram]


@dataclass(frozen=True)
class _Word:
    """One word of a phrase, or several of its kind."""

    pattern: re.Pattern[str]
    repeats: bool


@dataclass(frozen=True)
class _Program:
    phrases: tuple[tuple[_Word, ...], ...]
    flags: frozenset[str]
    values: dict[str, re.Pattern[str]]

    def allows(self, arguments: Sequence[str]) -> bool:
        words = self._without_options(arguments)
        return words is not None and any(_fits(words, phrase) for phrase in self.phrases)

    def _without_options(self, arguments: Sequence[str]) -> list[str] | None:
        """The other words; None when the value of an option is not of its class."""
        words, rest = list[str](), list(arguments)
        while rest:
            word = rest.pop(0)
            name, equals, value = word.partition("=")
            if word in self.flags:
                continue
            if name not in self.values:
                words.append(word)
                continue
            if not equals:
                if not rest:
                    return None
                value = rest.pop(0)
            if not self.values[name].fullmatch(value):
                return None
        return words


def is_reversible(program: str, argv: Sequence[str], via: Sequence[str], command: str) -> bool:
    """Return whether the change that these words make can be undone, and its extent is known."""
    found = _programs().get(program)
    if found is None or not _WRAPPERS.issuperset(via) or _ENDLESS_LOOP.search(command):
        return False
    return all(map(is_fully_known, argv)) and found.allows(argv[1:])


def _fits(words: Sequence[str], phrase: Sequence[_Word]) -> bool:
    if not phrase:
        return not words
    first, *rest = phrase
    most = min(len(words), _MAX_REPEATED_WORDS) if first.repeats else min(len(words), 1)
    for count in range(1, most + 1):
        if first.pattern.fullmatch(words[count - 1]) is None:
            return False
        if _fits(words[count:], rest):
            return True
    return False


@cache
def _programs() -> dict[str, _Program]:
    text = (files("hermes.policy.commands") / "tables" / "reversible.yaml").read_text()
    table = msgspec.convert(load_plain_yaml(text), _ReversibleTable)
    classes = {name: re.compile(pattern) for name, pattern in table.classes.items()}
    found: dict[str, _Program] = {}
    for names, program in table.programs.items():
        options = [option.partition("=") for option in program.options.split()]
        compiled = _Program(
            tuple(
                tuple(_compile_word(word, classes) for word in phrase.split())
                for phrase in program.commands
            ),
            frozenset(name for name, equals, _ in options if not equals),
            {name: classes[kind] for name, equals, kind in options if equals},
        )
        found.update(dict.fromkeys(map(str.strip, names.split(",")), compiled))
    return found


def _compile_word(word: str, classes: dict[str, re.Pattern[str]]) -> _Word:
    name = word.removesuffix("+")
    if name in classes:
        return _Word(classes[name], repeats=name != word)
    return _Word(re.compile("|".join(map(re.escape, word.split("|")))), repeats=False)
