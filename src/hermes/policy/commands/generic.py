"""Effects of a program by its table entry alone: verbs, options, and what its words are."""

import re
from collections.abc import Callable

from hermes.policy.commands import paths, tables
from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import ANY, LOOSE, NAME, foreign, leads, settled, shown
from hermes.policy.commands.options import Arguments, matches, split
from hermes.policy.commands.roles import apply_words, unread_code, words_read
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
    strict = entry.spec.strict
    instead = _apply_options(call, found, rules, first, strict)
    if instead and strict and entry.spec.args == "code" and (words or call.stdin is not None):
        instead = False
    _check_allowed(call, found, entry)
    if not instead:
        _apply_verb(call, verb or entry, words, bare=not found.options or entry.spec.trusts)
    _check_loose(call, found, verb or entry, [one for one in rules if _about(one, first)])
    spec = verb.spec if verb else entry.spec
    _aim(call, spec.target or entry.spec.target, words)
    if not instead:
        apply_words(call, verb or entry, words, found)
        _apply_stdin(call, verb or entry, words)
    elif spec.args in ("reads", "writes", "second", "dest", "pattern"):
        words_read(call, words)
    return printed(call, (verb or entry).spec.gives, words)


_COUNTS, _MATCHES = frozenset({"-c", "--count"}), frozenset({"-o", "-r", "-R", "--recursive"})


def printed(call: Call, gives: str, words: list[str]) -> str:
    """What kind of text it prints."""
    if gives == "names":
        return NAME
    if gives == "same" and call.stdin is not None and not foreign(call.stdin):
        return NAME
    if gives == "same" and _COUNTS & set(call.flags) and not _MATCHES & set(call.flags):
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
    spared = spared and not _refused(found, rules, verb)
    rehearsed = spared and any(
        _REHEARSAL.match(option) and _only(_rule(option, value, rules, verb))
        for option, value in found.options
    )
    for option, value in found.options:
        rule = _rule(option, value, rules, verb)
        if rule is None:
            _unlisted(call, option, value)
            continue
        if rule.does[0] == "only":
            call.marks(rule.does[1:] if spared else (), f"{call.program} {option}")
            instead = instead or spared
            continue
        if rehearsed and rule.does[0] in _REHEARSED:
            continue
        for kind in rule.does:
            apply_kind(call, kind, value, option)
    return instead


_REHEARSAL = re.compile(r"--?(?:dry-?run|simulate|just-print|no-act|noop)")
_REHEARSED = frozenset({"delete", "irreversible", "write", "service-change"})
"""Effects of other options that do not come about in a rehearsal; running code still does."""


def _unlisted(call: Call, option: str, value: str | None) -> None:
    """An option that no table names: a file is read, and what is called a command may be one."""
    if value and value[:1] in "/.~@":
        call.reads(value.lstrip("@"))
    if _RUNS_BY_NAME.fullmatch(option) and not option.startswith("--no-"):
        call.dynamic(f"{call.program} {shown(option)} is named like something that runs")


_RUNS_BY_NAME = re.compile(
    r"--?(?:[\w-]*-)?(?:exec|execute|command|cmd|program|pager|editor|hook|rsh|shell|helper"
    r"|preprocessor|interpreter|script|plugin|preload)(?:-(?:file|path|dir))?"
)


def _refused(found: Arguments, rules: tuple[OptionRule, ...], verb: str) -> bool:
    """`--dry-run=none`: an option that would make it look only, and is switched off."""
    return any(
        value is not None and value.lower() in _OFF and _only(_rule(option, "", rules, verb))
        for option, value in found.options
    )


_OFF = frozenset({"false", "no", "none", "off", "0", "f", "n", "disabled"})


def _about(rule: OptionRule, verb: str) -> bool:
    return rule.verb is None or rule.verb.match(verb) is not None


def _only(rule: OptionRule | None) -> bool:
    return rule is not None and rule.does[0] == "only"


def _rule(
    option: str, value: str | None, rules: tuple[OptionRule, ...], verb: str
) -> OptionRule | None:
    whole = f"{option}={value}"
    for rule in rules:
        if not _about(rule, verb):
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
    """A kubeconfig may also name the program that gets the credentials."""
    path = call.names(value)
    if "kubeconfig" not in where:
        return
    if paths.temporary(path) or foreign(value) or path.startswith("/dev/fd/"):
        call.dynamic(f"{call.program} {shown(where)} trusts a file that anybody may have put there")


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
    "runs": _runs, "code": unread_code, "reads": _reads, "writes": _writes, "deletes": _deletes,
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


def _check_loose(call: Call, found: Arguments, entry: Program, rules: list[OptionRule]) -> None:
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
        unread_code(call, call.stdin, "its input")
    elif kind == "sends" and foreign(call.stdin):
        call.mark("network-out", f"{call.program} sends what is piped into it")
