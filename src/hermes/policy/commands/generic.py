"""Effects of a program by its table entry alone: verbs, options, and what its words are."""

import re
from collections.abc import Callable

from hermes.policy.commands import tables
from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import ANY, LOOSE, NAME, foreign, leads, settled, shown
from hermes.policy.commands.options import Arguments, matches, split
from hermes.policy.commands.sql import judge_sql
from hermes.policy.commands.tables import OptionRule, Program


def by_table(call: Call, entry: Program) -> str | None:
    """Judge a command by its entry; gives its output where that is known."""
    found = split(call.argv[1:], entry.grammar)
    verb = _own_entry(entry, found)
    if verb:
        found = split(call.argv[1:], verb.under(entry))
    call.flags = tuple(name for name, _ in found.options)
    call.guarded = call.guarded and not entry.spec.escapes
    rules = (*entry.option_rules, *(verb.option_rules if verb else ()))
    words = found.words[1:] if verb else found.words
    first = found.words[0] if found.words else ""
    instead = _apply_options(call, found, rules, first, entry.spec.strict)
    _check_allowed(call, found, entry)
    if not instead:
        _apply_verb(call, verb or entry, words, bare=not found.options or entry.spec.trusts)
    _check_loose(call, found, verb or entry, rules)
    spec = verb.spec if verb else entry.spec
    _aim(call, spec.target or entry.spec.target, words)
    if not instead:
        _apply_words(call, verb or entry, words, found)
        _apply_stdin(call, verb or entry, words)
    return printed(call, (verb or entry).spec.gives, words)


def printed(call: Call, gives: str, words: list[str]) -> str:
    """What kind of text it prints."""
    if gives == "names":
        return NAME
    if gives == "same" and call.stdin is not None and not foreign(call.stdin):
        return NAME
    if gives == "paths" and words and not any(map(foreign, words)):
        # Which of them exist is not known, and so neither is the first word that it prints.
        return "\n".join([NAME, *words, ""])
    if gives == "paths":
        return NAME
    if gives == "input" and call.stdin is not None and not words:
        return call.stdin
    return ANY


def _own_entry(entry: Program, found: Arguments) -> Program | None:
    if not found.words or not settled(found.words[0]):
        return None
    return tables.program(f"{entry.name} {found.words[0]}")


def _apply_options(
    call: Call, found: Arguments, rules: tuple[OptionRule, ...], verb: str, strict: bool
) -> bool:
    """Mark what the options add; True when one of them makes it do something else instead."""
    instead = False
    spared = not strict or all(_mild(_rule(*one, rules, verb)) for one in found.options)
    for option, value in found.options:
        rule = _rule(option, value, rules, verb)
        if rule is None:
            if value and value[:1] in "/.~@":
                call.reads(value.lstrip("@"))
            continue
        if rule.does[0] == "only":
            call.marks(rule.does[1:] if spared else (), f"{call.program} {option}")
            instead = instead or spared
            continue
        for kind in rule.does:
            apply_kind(call, kind, value, option)
    return instead


def _rule(
    option: str, value: str | None, rules: tuple[OptionRule, ...], verb: str
) -> OptionRule | None:
    whole = f"{option}={value}"
    for rule in rules:
        if rule.verb is not None and not rule.verb.match(verb):
            continue
        if whole in rule.names or option in rule.names:
            return rule
        if rule.does[0] != "only" and matches(option, rule.names):
            return rule
    return None


def apply_kind(call: Call, kind: str, value: str | None, where: str) -> None:
    """One word of a table: an effect, or what a value is."""
    value = value or ""
    work = _KINDS.get(kind)
    if work is None:
        call.mark(kind, f"{call.program} {shown(where)}")
    else:
        work(call, value, where)


def _runs(call: Call, value: str, where: str) -> None:
    call.dynamic(f"{call.program} {shown(where)} runs a program of the caller's choice")
    if value:
        call.shell(value)


def _code(call: Call, value: str, where: str) -> None:
    call.dynamic(f"{call.program} {shown(where)} runs code that is not read here")
    if call.analyst.places.mentions_ours(value):
        call.own(value)


def _reads(call: Call, value: str, where: str) -> None:
    call.reads(value)


def _writes(call: Call, value: str, where: str) -> None:
    if value:
        call.writes(value, f"{call.program} {shown(where)} writes {shown(value)}")
    else:
        call.mark("write", f"{call.program} {shown(where)}")


def _deletes(call: Call, value: str, where: str) -> None:
    call.deletes(value)


def _sql(call: Call, value: str, where: str) -> None:
    judge_sql(call, value)


def _uses(call: Call, value: str, where: str) -> None:
    call.names(value)


def _configures(call: Call, value: str, where: str) -> None:
    """A configuration can load modules and scripts; the system's own is trusted."""
    if not call.path(value).startswith("/etc/"):
        call.dynamic(f"{call.program} {shown(where)} loads a configuration of the caller's choice")


def _recurses(call: Call, value: str, where: str) -> None:
    for word in call.argv[1:]:
        if not word.startswith("-") and call.analyst.places.harbours(call.path(word)):
            call.mark("secret-read", f"reads all of {shown(word)}, secrets included")


def _nothing(call: Call, value: str, where: str) -> None:
    """A harmless option that must not be taken for the start of a harmful one."""


_KINDS: dict[str, Callable[[Call, str, str], None]] = {
    "runs": _runs, "code": _code, "reads": _reads, "writes": _writes, "deletes": _deletes,
    "sql": _sql, "uses": _uses, "recurses": _recurses, "configures": _configures,
    "nothing": _nothing,
    "network-host": lambda call, value, where: call.aim(host=value),
    "namespace": lambda call, value, where: call.aim(namespace=value),
    "context": lambda call, value, where: call.aim(context=value),
}  # fmt: skip


def _apply_verb(call: Call, entry: Program, words: list[str], *, bare: bool) -> None:
    if not words and bare and entry.spec.alone:
        call.marks(tuple(entry.spec.alone.split()), f"{entry.name} without more words")
        return
    if not entry.spec.verbs:
        _mark_all(call, entry.does, entry.name)
        return
    if ";" in words or any(";" in word for word in words[:2]):
        call.dynamic(f"{entry.name} is given several commands at once")
    effects = entry.verb(words)
    what = " ".join(map(shown, (entry.name, *words[:2])))
    if effects is None and entry.does:
        effects = entry.does
    if effects is None:
        call.mark("unknown", f"{what}: not a verb that the tables know")
    else:
        _mark_all(call, effects, what)


def _mark_all(call: Call, effects: tuple[str, ...], what: str) -> None:
    for effect in effects:
        if effect == "dynamic":
            call.dynamic(f"{what} runs code that is not read here")
        else:
            call.mark(effect, what)


def _check_loose(
    call: Call, found: Arguments, entry: Program, rules: tuple[OptionRule, ...]
) -> None:
    """A word only known at run time may be an option; that matters where options do harm."""
    if entry.spec.trusts or not any(_harmful(rule) for rule in rules):
        return
    if call.doubtful or any(leads(word) for word in found.loose) or LOOSE in call.argv:
        call.dynamic(f"a word only known at run time may be an option of {call.program}")


_MILD = {"only", "reads", "uses", "read", "nothing", "recurses", "network-host", "namespace",
         "context"}  # fmt: skip


def _mild(rule: OptionRule | None) -> bool:
    return rule is not None and rule.does[0] in _MILD


def _check_allowed(call: Call, found: Arguments, entry: Program) -> None:
    """Where the harmless options are listed, every other one is unknown."""
    allowed = entry.spec.harmless.split()
    for option, _ in found.options:
        if allowed and option not in allowed:
            call.mark("unknown", f"{call.program} {shown(option)} is not known to be harmless")


def _harmful(rule: OptionRule) -> bool:
    return rule.does[0] not in _MILD


def _aim(call: Call, kind: str, words: list[str]) -> None:
    if kind and words:
        call.aim(**{kind: words[0]})


def _apply_words(call: Call, entry: Program, words: list[str], found: Arguments) -> None:
    role = entry.spec.args
    if role in ("runs", "shell"):
        _peel(call, found, role)
        return
    work = _ROLES.get(role)
    if work:
        work(call, words)


def _peel(call: Call, found: Arguments, role: str) -> None:
    if not found.rest:
        # The words that usually stand before the command may have been left out.
        if found.words:
            call.run(found.words)
        return
    if role == "shell":
        call.shell(" ".join(found.rest))
    else:
        call.run(found.rest)


def _words_read(call: Call, words: list[str]) -> None:
    for word in words:
        call.reads(word)


def _words_named(call: Call, words: list[str]) -> None:
    for word in words:
        call.names(word)


def _words_written(call: Call, words: list[str]) -> None:
    for word in words:
        call.writes(word)


def _words_deleted(call: Call, words: list[str]) -> None:
    for word in words:
        call.deletes(word)


def _last_written(call: Call, words: list[str]) -> None:
    _words_read(call, words[:-1])
    _words_written(call, words[-1:])


def _second_written(call: Call, words: list[str]) -> None:
    _words_read(call, words[:1])
    _words_written(call, words[1:])


def _after_first(call: Call, words: list[str]) -> None:
    given = any(flag in ("-e", "-f", "--regexp", "--file", "--files") for flag in call.flags)
    _words_read(call, words if given else words[1:])


def _filtered(call: Call, words: list[str]) -> None:
    """A filter expression looks like a path; only what surely is a file is read."""
    for word in words:
        if word.startswith(("/", "~", "./", "../")) or word == words[-1]:
            call.reads(word if len(words) > 1 or word[:1] in "/~" else "./-")


def _started(call: Call, words: list[str]) -> None:
    """Files for a pager, among which `+command` runs at the start."""
    for word in words:
        if not word.startswith("+"):
            call.reads(word)
        elif not re.fullmatch(r"\+\+?(?:[GFgN]|\d+|/[^!|]*)", word):
            call.dynamic(f"{call.program} {shown(word)} runs a command of the pager")


def _first_is_script(call: Call, words: list[str]) -> None:
    if words:
        call.dynamic(f"runs {shown(words[0])}, whose content is not read here")
        _words_read(call, words)


def _all_code(call: Call, words: list[str]) -> None:
    for word in words:
        _code(call, word, shown(word)[:20])


_ROLES: dict[str, Callable[[Call, list[str]], None]] = {
    "reads": _words_read,
    "names": _words_named,
    "writes": _words_written,
    "deletes": _words_deleted,
    "dest": _last_written,
    "second": _second_written,
    "pattern": _after_first,
    "filter": _filtered,
    "pager": _started,
    "script": _first_is_script,
    "code": _all_code,
}


def _apply_stdin(call: Call, entry: Program, words: list[str]) -> None:
    kind = entry.spec.stdin
    if not kind or call.stdin is None:
        return
    if kind == "shell":
        call.dynamic(f"{call.program} runs what is piped into it")
        call.shell(call.stdin, stdin="")
    elif kind == "sql":
        judge_sql(call, call.stdin)
    elif kind == "code":
        _code(call, call.stdin, "its input")
    elif kind == "sends" and foreign(call.stdin):
        call.mark("network-out", f"{call.program} sends what is piped into it")
