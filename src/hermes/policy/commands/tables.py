"""Reads the program tables, and parses the arguments of programs as getopt does."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase, translate
from functools import cache, cached_property
from importlib.resources import files
from itertools import combinations

import msgspec

from hermes.plumbing.yaml_document import load_plain_yaml
from hermes.policy.commands.placeholders import ANY_WORDS, has_untrusted_text, starts_unknown


@dataclass(frozen=True)
class OptionGrammar:
    """Which options take a value, and how they are written."""

    values: frozenset[str] = frozenset()
    single: bool = False
    """Long options begin with one dash, as in `find -name` or `terraform -auto-approve`."""
    stops: int | None = None
    """After this many words the rest belongs to another command."""
    stops_immediately: bool = False
    """The rest begins right after those words, even with an option."""
    flags: frozenset[str] = frozenset()
    """Options that are known to take no value."""
    abbreviates: bool = False
    """An abbreviated option also takes its value; `flags` has those that begin like such a one."""

    def takes_value(self, name: str) -> bool:
        if name in self.values:
            return True
        if not self.abbreviates or name in self.flags or len(name) < 4:
            return False
        return any(value.startswith(name) for value in self.values)


@dataclass
class ParsedArguments:
    options: list[tuple[str, str | None]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)
    rest: list[str] = field(default_factory=list)
    """The words after `stops`."""
    loose: list[str] = field(default_factory=list)
    """Unknown words that could be options."""
    ambiguous: list[int] = field(default_factory=list)
    """Indices of words that may be the value of the option before them."""
    swallowed: list[str] = field(default_factory=list)
    """Values that look like options."""

    def other_readings(self) -> Iterator[list[str]]:
        """The words without some of those that may be values of options."""
        for count in range(1, len(self.ambiguous[:4]) + 1):
            for dropped in combinations(self.ambiguous[:4], count):
                yield [word for at, word in enumerate(self.words) if at not in dropped]

    def names(self) -> set[str]:
        return {name for name, _ in self.options}

    def has(self, *names: str) -> bool:
        return any(option_matches(option, names) for option, _ in self.options)

    def value(self, *names: str) -> str | None:
        found = None
        for option, value in self.options:
            if option_matches(option, names):
                found = value
        return found

    def values(self, *names: str) -> list[str]:
        return [
            value
            for option, value in self.options
            if option_matches(option, names) and value is not None
        ]


def option_matches(option: str, names: Collection[str]) -> bool:
    """Return whether an option is one of these, possibly abbreviated as getopt allows."""
    if option in names:
        return True
    if not option.startswith("--") or len(option) < 3:
        return False
    return any(name.startswith(option) for name in names)


def parse_arguments(words: list[str], grammar: OptionGrammar) -> ParsedArguments:
    """Options are read up to `--`; with `stops`, up to the command that follows."""
    found = ParsedArguments()
    at = 0
    after_flag = False
    while at < len(words):
        word = words[at]
        at += 1
        if word == "--":
            _parse_rest(found, words[at:], grammar)
            return found
        if word.startswith("-") and len(word) > 1:
            at = _parse_short_option(found, words, at, grammar)
            option, value = found.options[-1]
            after_flag = value is None and option not in grammar.flags
            continue
        if grammar.stops is not None and len(found.words) >= grammar.stops:
            found.rest = words[at - 1 :]
            return found
        if starts_unknown(word):
            found.loose.append(word)
        if after_flag:
            found.ambiguous.append(len(found.words))
        after_flag = False
        found.words.append(word)
        if grammar.stops_immediately and len(found.words) == grammar.stops:
            found.rest = words[at:]
            return found
    return found


def _parse_rest(found: ParsedArguments, words: list[str], grammar: OptionGrammar) -> None:
    if grammar.stops is None:
        found.words += words
        return
    missing = max(0, grammar.stops - len(found.words))
    found.words += words[:missing]
    found.rest = words[missing:]


def _parse_short_option(
    found: ParsedArguments, words: list[str], at: int, grammar: OptionGrammar
) -> int:
    word = words[at - 1]
    if word.startswith("--") or (grammar.single and len(word) > 2):
        return _parse_long_option(found, words, at, grammar)
    for index in range(1, len(word)):
        name = "-" + word[index]
        if name not in grammar.values:
            found.options.append((name, None))
            continue
        value: str | None = word[index + 1 :]
        if not value:
            value = words[at] if at < len(words) else None
            at += 1
            _note_swallowed(found, value)
        found.options.append((name, value))
        break
    return at


def _parse_long_option(
    found: ParsedArguments, words: list[str], at: int, grammar: OptionGrammar
) -> int:
    name, equals, value = words[at - 1].partition("=")
    if equals:
        found.options.append((name, value))
    elif grammar.takes_value(name) and at < len(words):
        found.options.append((name, words[at]))
        _note_swallowed(found, words[at])
        return at + 1
    else:
        found.options.append((name, None))
    return at


def _note_swallowed(found: ParsedArguments, value: str | None) -> None:
    if value and re.match(r"-[-A-Za-z]", value):
        found.swallowed.append(value)


TABLE_FILES = (
    "shell", "files", "text", "system", "network", "wrappers", "interpreters", "containers",
    "kubernetes", "versions", "packages", "cloud", "databases", "services", "storage",
)  # fmt: skip


class ProgramSpec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One entry of a table. Lists are strings of words, for readability."""

    does: str = ""
    """Effects of every call."""
    same: str = ""
    """Another name of this program, which has the entry."""
    values: str = ""
    """Options that take a value."""
    flags: str = ""
    """Options without a value, although they take one elsewhere in the program, or begin like one
    that does."""
    single: bool = False
    """Long options begin with one dash."""
    options: dict[str, str] = {}
    """Options, optionally with @verb, and what they add: effects, or the kind of their value."""
    verbs: dict[str, str] = {}
    """Effects, and the verbs that have them, separated by commas; `*` in a verb is a wildcard."""
    args: str = "reads"
    """What the words are: reads names text writes deletes dest second pattern filter pager runs
    shell code script."""
    argument_files: bool = False
    """It replaces a word `@FILE` with the options in that file."""
    skip: int = 0
    """The number of words before the command that it runs."""
    alone: str = ""
    """Effects without any word."""
    stdin: str = ""
    """How it uses its input: shell code sql sends."""
    special: str = ""
    """The function that analyses it instead of the table."""
    gives: str = ""
    """`names` when its output is names or numbers generated by the system; `parts` when it is made
    of its words."""
    trusts: bool = False
    """No option is worse than the verb, so words known only at run time are harmless."""
    harmless: str = ""
    """If set, every other option is unknown."""
    strict: bool = False
    """`only` applies when there is no other option."""
    escapes: bool = False
    """A key in the program opens a shell."""
    target: str = ""
    """What its first word names: host, container or service."""
    opens: str = ""
    """`nothing` when it opens no file because of its words, `named` when it opens just those that
    they name, or the verbs (`$`: none) with which it opens nothing. What other programs open is
    checked when they open it."""
    searches: str = ""
    """Pattern of the words with which it opens files that no word names: lists, whole folders."""
    keys: str = ""
    """Patterns of the files with secrets that it uses itself and does not print; `named` for those
    that its words name."""


@dataclass(frozen=True)
class OptionRule:
    verb: re.Pattern[str] | None
    names: frozenset[str]
    does: tuple[str, ...]


@dataclass(frozen=True)
class VerbRule:
    """A phrase: `*` is part of a word, a leading `**` any words, a final `$` no more words."""

    words: tuple[str, ...]
    does: tuple[str, ...]

    @property
    def anywhere(self) -> bool:
        return self.words[0] == "**"

    @property
    def weight(self) -> tuple[int, int]:
        """Longer phrases first, then those without a wildcard."""
        return -len(self.words), sum("*" in word for word in self.words)

    def matches(self, words: list[str]) -> bool:
        if self.anywhere:
            return any(_starts_with(words[at:], self.words[1:]) for at in range(len(words)))
        return _starts_with(words, self.words)


def _starts_with(words: list[str], phrase: tuple[str, ...]) -> bool:
    if phrase[-1] == "$":
        return len(words) == len(phrase) - 1 and _starts_with(words, phrase[:-1])
    return len(words) >= len(phrase) and all(map(_word_matches, words, phrase))


def _may_start_with(words: Sequence[str], phrase: tuple[str, ...]) -> bool:
    """The same for words that are partly known only at run time."""
    for word, pattern in zip(words, phrase, strict=False):
        if word == ANY_WORDS:
            return True
        if pattern == "$":
            return False
        if not has_untrusted_text(word) and not _word_matches(word, pattern):
            return False
    return len(words) >= len(phrase) - (phrase[-1] == "$")


def _word_matches(word: str, pattern: str) -> bool:
    if "*" not in pattern:
        return word == pattern
    before, _, after = pattern.partition("*")
    if "*" in after:
        return fnmatchcase(word, pattern)
    return word.startswith(before) and word.endswith(after) and len(word) >= len(pattern) - 1


@dataclass(frozen=True)
class ProgramEntry:
    """A compiled entry."""

    name: str
    spec: ProgramSpec

    @cached_property
    def grammar(self) -> OptionGrammar:
        stops = self.spec.skip if self.spec.args in ("runs", "shell") else None
        flags = {*self.spec.flags.split(), *self.spec.harmless.split()}
        flags |= {name for rule in self.option_rules for name in rule.names}
        values = frozenset(self.spec.values.split())
        return OptionGrammar(
            values,
            self.spec.single,
            stops,
            flags=frozenset(flags - values),
            abbreviates=stops is not None or bool(self.spec.flags and not self.spec.verbs),
        )

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
        """Effects of the best phrase at the beginning of the words, and of every phrase with **."""
        best: tuple[str, ...] = ()
        anywhere: list[str] = []
        for rule in self.verb_rules:
            if (rule.anywhere or not best) and rule.matches(words[:8]):
                if rule.anywhere:
                    anywhere += rule.does
                else:
                    best = rule.does
        return tuple(dict.fromkeys((*best, *anywhere))) or None

    def possible_effects(self, words: Sequence[str]) -> tuple[str, ...]:
        """Effects of every phrase that the words may turn out to be at run time."""
        found = [
            rule.does
            for rule in self.verb_rules
            if any(
                _may_start_with(words[at:8], rule.words[rule.anywhere :])
                for at in range(len(words) if rule.anywhere else 1)
            )
        ]
        return tuple(dict.fromkeys(effect for does in found for effect in does))

    def opens_only_named(self, words: Sequence[str]) -> bool:
        """Return whether it opens no file but those that these words name."""
        opens = self.spec.opens
        if opens in ("", "nothing"):
            return bool(opens)
        if self.searches_files(words):
            return False
        named = opens == "named"
        verb = "" if named else self._verb_word(words) or "$"
        if not named and not any(_word_matches(verb, one) for one in opens.split()):
            return False
        reads = named and self.spec.args not in ("text", "names") and not self.spec.verbs
        return not any(self._may_name_file(word, reads=reads) for word in words)

    def searches_files(self, words: Sequence[str]) -> bool:
        """Return whether these words make it open files that none of them names."""
        return bool(self.spec.searches) and any(map(self._searching_word.match, words))

    @cached_property
    def _searching_word(self) -> re.Pattern[str]:
        return re.compile(self.spec.searches, re.S)

    @cached_property
    def _listed_options(self) -> frozenset[str]:
        return self.grammar.values.union(*(rule.names for rule in self.option_rules))

    def _verb_word(self, words: Sequence[str]) -> str:
        return next(iter(parse_arguments([*words], self.grammar).words), "")

    def _may_name_file(self, word: str, *, reads: bool) -> bool:
        """A word known only at run time, a file with options, or an option of unknown meaning."""
        if word[:1] in ("…", "@") or (reads and "…" in word):
            return True
        if not reads and word[:1] in ("*", "?", "["):  # the name of a file may be an option
            return True
        name, equals, _ = word.partition("=")
        unlisted = len(name) > 2 and word.startswith("--") and name not in self._listed_options
        return unlisted and (reads or bool(equals))

    def under(self, parent: "ProgramEntry") -> OptionGrammar:
        """The grammar of a verb with its own entry."""
        values = (parent.grammar.values | self.grammar.values) - set(self.spec.flags.split())
        return OptionGrammar(values, parent.spec.single or self.spec.single, self.grammar.stops)


def _option_rule(key: str, value: str) -> OptionRule:
    words = key.split()
    verb = None
    if words[0].startswith("@"):
        verb = re.compile("|".join(translate(one) for one in words[0][1:].split(",")))
        words = words[1:]
    return OptionRule(verb, frozenset(words), tuple(value.split()))


@cache
def _entry_texts() -> dict[str, str]:
    """The text of each entry by its names."""
    found: dict[str, str] = {}
    for table in TABLE_FILES:
        found.update(_entries_of(table))
    return found


@cache
def _entries_of(table: str) -> dict[str, str]:
    """The same of one table; an entry begins at the start of a line."""
    found: dict[str, str] = {}
    text = (files("hermes.policy.commands") / "tables" / f"{table}.yaml").read_text()
    for entry in _ENTRY_START.split(text):
        if key := _ENTRY_KEY.match(entry):
            names = map(str.strip, key.group(1).split(","))
            found.update(dict.fromkeys(names, entry[key.end() :]))
    return found


_ENTRY_START = re.compile(r"\n(?=[^ #\n])")
_ENTRY_KEY = re.compile(r'"?([^#\n][^\n]*?)"?:(?=[ \n])')


def _parse(text: str) -> object:
    return load_plain_yaml(text)


@cache
def find_program(name: str) -> ProgramEntry | None:
    """The entry of a program, or of `program verb`."""
    text = _entry_texts().get(name)
    if text is None:
        return None
    raw = _parse(text)
    spec = ProgramSpec(does=raw) if isinstance(raw, str) else msgspec.convert(raw, ProgramSpec)
    return find_program(spec.same) if spec.same else ProgramEntry(name, spec)


def program_names(table: str = "") -> Collection[str]:
    """Every program in the tables, or in one of them."""
    return (_entries_of(table) if table else _entry_texts()).keys()


def variable_decides_code(variable: str) -> bool:
    """Return whether this variable selects code, libraries, options or editors of programs."""
    names, beginnings = _code_variables()
    return variable in names or variable.startswith(beginnings)


@cache
def _code_variables() -> tuple[frozenset[str], tuple[str, ...]]:
    """Whole names, and beginnings of names."""
    listed = path_lists()["variables"]
    beginnings = tuple(each[:-1] for each in listed if each.endswith("*"))
    return frozenset(listed), beginnings


@cache
def path_lists() -> dict[str, list[str]]:
    """The lists that are not about programs: secrets, system folders, variables."""
    text = (files("hermes.policy.commands") / "tables" / "places.yaml").read_text()
    return msgspec.convert(_parse(text), dict[str, list[str]])
