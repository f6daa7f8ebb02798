"""Applies the entry of a program table: marks the effects of options, verbs and words."""

import re
from collections.abc import Callable

from hermes.policy.commands import tables
from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.effects import READING_EFFECTS, word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    SYSTEM_NAME,
    display_text,
    has_untrusted_text,
    is_fully_known,
    starts_with_glob,
)
from hermes.policy.commands.tables import (
    OptionGrammar,
    OptionRule,
    ParsedArguments,
    ProgramEntry,
    option_matches,
    parse_arguments,
)
from hermes.policy.programs.sql import mark_sql_effects
from hermes.policy.programs.word_roles import (
    apply_word_roles,
    mark_unread_code,
    mark_words_read,
)


def apply_table(call: ProgramCall, entry: ProgramEntry) -> str | None:
    """Marks the effects of a command by its entry; returns its output, if known."""
    found = general = parse_arguments(call.argv[1:], entry.grammar)
    verb = _subcommand_entry(entry, found)
    if verb:
        found = parse_arguments(call.argv[1:], verb.under(entry))
    call.flags = tuple(name for name, _ in found.options)
    call.guarded = call.guarded and not entry.spec.escapes
    rules = (*entry.option_rules, *(verb.option_rules if verb else ()))
    words = found.words[1:] if verb else found.words
    first = found.words[0] if found.words else ""
    strict = entry.spec.strict
    instead = _apply_options(call, found, rules, first, strict)
    if instead and strict and entry.spec.args == "code" and (words or call.stdin is not None):
        instead = False
    _check_allowed_options(call, found, entry)
    if not instead:
        _apply_verb(call, verb or entry, words, bare=not found.options or entry.spec.trusts)
        _apply_other_verbs(call, entry, general)
    _check_unknown_words(
        call, found, verb or entry, [one for one in rules if _rule_applies_to_verb(one, first)]
    )
    spec = verb.spec if verb else entry.spec
    _set_target(call, spec.target or entry.spec.target, words)
    printed = ""
    if not instead:
        printed = apply_word_roles(call, verb or entry, words, found)
        _apply_stdin(call, verb or entry, words)
    elif spec.args in ("reads", "writes", "second", "dest", "pattern"):
        mark_words_read(call, words)
    if spec.gives == "command" and printed == SYSTEM_NAME:
        return SYSTEM_NAME
    return printed_kind(call, spec.gives, words)


_COUNT_OPTIONS, _MATCH_OPTIONS = (
    frozenset({"-c", "--count"}),
    frozenset({"-o", "-r", "-R", "--recursive"}),
)


def printed_kind(call: ProgramCall, gives: str, words: list[str]) -> str:
    """The kind of text that it prints."""
    if gives == "names" and _prints_other_text(call):
        return ANY_WORD
    if gives == "names" or (gives == "parts" and not any(map(has_untrusted_text, words))):
        return SYSTEM_NAME
    if gives == "same" and call.stdin is not None and not has_untrusted_text(call.stdin):
        return SYSTEM_NAME
    if (
        gives == "same"
        and call.program.endswith("grep")
        and _COUNT_OPTIONS & set(call.flags)
        and not _MATCH_OPTIONS & set(call.flags)
    ):
        return SYSTEM_NAME
    if gives == "paths" and words and not any(map(has_untrusted_text, words)):
        # It is unknown which of them exist, and so which word it prints first.
        return "\n".join([SYSTEM_NAME, *words, ""])
    if gives == "input" and call.stdin is not None and not words:
        return call.stdin
    return ANY_WORD


_WORD_PRINTERS = word_set(
    "wc cksum md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum sum shasum seq pgrep ps"
)
"""Programs that print their words, or names of files, among their numbers."""
_TEXT_PRINTERS = word_set(
    "w who last lastb top htop btop iotop pstree lsns lslocks lsfd systemd-cgls systemd-cgtop"
    " mailq smem lslogins pwdx nethogs"
)
"""Programs that print what processes, users or senders of mail call themselves."""
_PLAIN_WORD = re.compile(rf"[\w./:@%+=,~{SYSTEM_NAME}-]*\Z", re.A)
_LISTING_OPTION = re.compile(r"-[A-Za-z]*[al]|--l")
"""Options with which pgrep prints command lines."""
_NAME_LIST_OPTION = re.compile(r"-[a-z]*c\Z|--[cf]")
"""Options with which sums are compared with those in a file, or files are read from a list."""


def _prints_other_text(call: ProgramCall) -> bool:
    """Return whether its output may hold text of others: names of files, command lines, its own
    words."""
    words = call.argv[1:]
    if call.program in _TEXT_PRINTERS or ANY_WORDS in words:
        return True
    if call.program not in _WORD_PRINTERS:
        return False
    if call.program == "ps":
        return not _prints_only_numbers(words)
    if not all(map(_PLAIN_WORD.match, words)):
        return True
    if call.program == "pgrep":
        return any(map(_LISTING_OPTION.match, words))
    sums = call.program not in ("wc", "seq")
    return any(_NAME_LIST_OPTION.match(word) for word in words if sums or word.startswith("--"))


_NUMBER_COLUMNS = word_set(
    "pid ppid pgid sid tid lwp nlwp rss vsz sz size pcpu %cpu pmem %mem c etimes cputimes time"
    " etime ni pri psr stat state s tty uid euid gid user euser min_flt maj_flt lstart"
)


def _prints_only_numbers(words: list[str]) -> bool:
    """Return whether the columns of `ps` are numbers or names of the system."""
    found = parse_arguments(words, OptionGrammar(frozenset(_PS_VALUES)))
    columns = [each for value in found.values("-o", "--format") for each in value.split(",")]
    return bool(columns) and all(each.removesuffix("=") in _NUMBER_COLUMNS for each in columns)


_PS_VALUES = word_set("-C -g -G -o -p -q -s -t -u -U --pid --ppid --format --sort --user")


def _subcommand_entry(entry: ProgramEntry, found: ParsedArguments) -> ProgramEntry | None:
    if not found.words or not is_fully_known(found.words[0]):
        return None
    return tables.find_program(f"{entry.name} {found.words[0]}")


def _apply_options(
    call: ProgramCall,
    found: ParsedArguments,
    rules: tuple[OptionRule, ...],
    verb: str,
    strict: bool,
) -> bool:
    """Marks the effects of options; True when one of them replaces the usual effects."""
    instead = False
    spared = not strict or all(
        _is_harmless_rule(_find_option_rule(*one, rules, verb)) for one in found.options
    )
    spared = spared and not _is_switched_off(found, rules, verb)
    rehearsed = spared and any(
        _DRY_RUN_OPTION.match(option)
        and _is_replacing_rule(_find_option_rule(option, value, rules, verb))
        for option, value in found.options
    )
    for option, value in found.options:
        rule = _find_option_rule(option, value, rules, verb)
        if rule is None:
            _apply_unlisted_option(call, option, value)
            continue
        if rule.does[0] == "only":
            call.mark_all(rule.does[1:] if spared else (), f"{call.program} {option}")
            instead = instead or spared
            continue
        if rehearsed and rule.does[0] in _EFFECTS_SKIPPED_IN_DRY_RUN:
            continue
        for kind in rule.does:
            apply_table_word(call, kind, value, option)
    _apply_swallowed_options(call, found, rules, verb)
    return instead


def _apply_swallowed_options(
    call: ProgramCall, found: ParsedArguments, rules: tuple[OptionRule, ...], verb: str
) -> None:
    """A value that looks like an option: the option before it may take none in this version."""
    letters = parse_arguments(found.swallowed, OptionGrammar()).options
    whole = parse_arguments(found.swallowed, OptionGrammar(single=True)).options
    for option, value in (*letters, *whole):
        rule = _find_option_rule(option, value, rules, verb)
        if rule is not None and not _is_harmless_rule(rule):
            for kind in rule.does:
                apply_table_word(call, kind, value, option)


_DRY_RUN_OPTION = re.compile(r"--?(?:dry-?run|simulate|just-print|no-act|noop)")
_EFFECTS_SKIPPED_IN_DRY_RUN = frozenset({"delete", "irreversible", "write", "service-change"})
"""Effects of other options that do not occur in a dry run; running code still does."""


def _apply_unlisted_option(call: ProgramCall, option: str, value: str | None) -> None:
    """An option without an entry: its value may be a file to read, or a command."""
    if value and value[:1] in "/.~@":
        call.reads(value.lstrip("@"))
    if _OPTION_NAMING_A_COMMAND.fullmatch(option) and not option.startswith("--no-"):
        call.dynamic(f"{call.program} {display_text(option)} is named like something that runs")


_OPTION_NAMING_A_COMMAND = re.compile(
    r"--?(?:[\w-]*-)?(?:exec|execute|command|cmd|program|pager|editor|hook|rsh|shell|helper"
    r"|preprocessor|interpreter|script|plugin|preload)(?:-(?:file|path|dir))?"
)


def _is_switched_off(found: ParsedArguments, rules: tuple[OptionRule, ...], verb: str) -> bool:
    """`--dry-run=none`, or `--no-dry-run` after it: a dry run that is switched off."""
    replacing = [
        name
        for rule in rules
        if rule.does[0] == "only" and _rule_applies_to_verb(rule, verb)
        for name in rule.names
    ]
    if any(
        option.startswith("--no-") and name.startswith(f"--{option[5:]}")
        for option, _ in found.options
        for name in replacing
    ):
        return True
    return any(
        value is not None
        and value.lower() in _OFF_VALUES
        and _is_replacing_rule(_find_option_rule(option, "", rules, verb))
        for option, value in found.options
    )


_OFF_VALUES = frozenset({"false", "no", "none", "off", "0", "f", "n", "disabled"})


def _rule_applies_to_verb(rule: OptionRule, verb: str) -> bool:
    return rule.verb is None or rule.verb.match(verb) is not None


def _is_replacing_rule(rule: OptionRule | None) -> bool:
    return rule is not None and rule.does[0] == "only"


def _find_option_rule(
    option: str, value: str | None, rules: tuple[OptionRule, ...], verb: str
) -> OptionRule | None:
    whole = f"{option}={value}"
    for rule in rules:
        if not _rule_applies_to_verb(rule, verb):
            continue
        if whole in rule.names or option in rule.names:
            return rule
        if rule.does[0] != "only" and option_matches(option, rule.names):
            return rule
    return None


def apply_table_word(call: ProgramCall, kind: str, value: str | None, where: str) -> None:
    """Applies one word of a table: an effect, or the kind of a value."""
    value = value or ""
    work = _TABLE_WORD_HANDLERS.get(kind)
    if work is None:
        call.mark(kind, f"{call.program} {display_text(where)}")
    else:
        work(call, value, where)


def _value_runs(call: ProgramCall, value: str, where: str) -> None:
    call.dynamic(f"{call.program} {display_text(where)} runs a program of the caller's choice")
    if value:
        call.shell(value)


def _value_is_read(call: ProgramCall, value: str, where: str) -> None:
    for file in (value, *(each.partition("=")[2] for each in value.split(",") if "=" in each)):
        call.reads(file)  # also `--set-file name=file`


def _mark_logged_requests(call: ProgramCall, value: str, where: str) -> None:
    call.mark("secret-read", f"{call.program} {where} prints requests with their tokens")


def _value_is_written(call: ProgramCall, value: str, where: str) -> None:
    if value:
        call.writes(value, f"{call.program} {display_text(where)} writes {display_text(value)}")
    else:
        call.mark("write", f"{call.program} {display_text(where)}")


def _value_is_deleted(call: ProgramCall, value: str, where: str) -> None:
    call.deletes(value)


def _value_is_sql(call: ProgramCall, value: str, where: str) -> None:
    mark_sql_effects(call, value)


def _value_is_used(call: ProgramCall, value: str, where: str) -> None:
    """A key or certificate that the program does not print."""
    call.names(value)


def _value_is_configuration(call: ProgramCall, value: str, where: str) -> None:
    """A configuration can load modules and scripts; the system's own is trusted."""
    if not call.path(value).startswith("/etc/"):
        call.dynamic(
            f"{call.program} {display_text(where)} loads a configuration of the caller's choice"
        )


def _mark_recursive(call: ProgramCall, value: str, where: str) -> None:
    for word in call.argv[1:]:
        if word.startswith("-"):
            continue
        classifier = call.analyst.classifier
        if any(
            classifier.may_contain_secrets(path)
            for path in classifier.with_real_path(call.path(word))
        ):
            call.mark("secret-read", f"reads all of {display_text(word)}, secrets included")


def _mark_nothing(call: ProgramCall, value: str, where: str) -> None:
    """A harmless option that must not count as the abbreviation of a harmful one."""


_TABLE_WORD_HANDLERS: dict[str, Callable[[ProgramCall, str, str], None]] = {
    "runs": _value_runs, "code": mark_unread_code, "reads": _value_is_read,
    "writes": _value_is_written, "deletes": _value_is_deleted, "sql": _value_is_sql,
    "uses": _value_is_used, "recurses": _mark_recursive,
    "configures": _value_is_configuration, "nothing": _mark_nothing, "logs": _mark_logged_requests,
    "network-host": lambda call, value, where: call.set_target(host=value),
    "namespace": lambda call, value, where: call.set_target(namespace=value),
    "context": lambda call, value, where: call.set_target(context=value),
}  # fmt: skip


def _apply_verb(call: ProgramCall, entry: ProgramEntry, words: list[str], *, bare: bool) -> None:
    if not words and bare and entry.spec.alone:
        call.mark_all(tuple(entry.spec.alone.split()), f"{entry.name} without more words")
        return
    if not entry.spec.verbs:
        _mark_all(call, entry.does, entry.name)
        return
    if ";" in words or any(";" in word for word in words[:2]):
        call.dynamic(f"{entry.name} is given several commands at once")
    effects = entry.verb(words)
    what = " ".join(map(display_text, (entry.name, *words[:2])))
    if effects is None and entry.does:
        effects = entry.does
    if effects is None:
        call.mark("unknown", f"{what}: not a verb that the tables know")
    else:
        _mark_all(call, effects, what)
    if any(map(has_untrusted_text, words[:8])):
        possible = entry.possible_effects(words)
        _mark_all(call, tuple(each for each in possible if not _reads_only((each,))), what)


def _apply_other_verbs(call: ProgramCall, entry: ProgramEntry, found: ParsedArguments) -> None:
    """`helm --kube-token list uninstall x`: a word after an option may be its value."""
    if not entry.spec.verbs:
        return
    for words in filter(None, found.other_readings()):
        own = tables.find_program(f"{entry.name} {words[0]}")
        effects = entry.verb(words) or (() if own or _reads_only(entry.does) else ("unknown",))
        for effect in (*(own.does if own else ()), *effects):
            if not _reads_only((effect,)):
                shown = " ".join(map(display_text, (entry.name, *words[:2])))
                call.mark(effect, f"{shown}, if an option before it takes a value")


def _reads_only(effects: tuple[str, ...]) -> bool:
    return READING_EFFECTS.issuperset(effects)


def _mark_all(call: ProgramCall, effects: tuple[str, ...], what: str) -> None:
    for effect in effects:
        if effect == "dynamic":
            call.dynamic(f"{what} runs code that is not read here")
        else:
            call.mark(effect, what)


def _check_unknown_words(
    call: ProgramCall, found: ParsedArguments, entry: ProgramEntry, rules: list[OptionRule]
) -> None:
    """A word that is known only at run time may be a harmful option."""
    if not any(_is_harmful_rule(rule) for rule in rules):
        return
    globs = any(map(starts_with_glob, (*found.words, *found.values("-f", "--file"))))
    single = call.doubtful or found.loose or globs
    if ANY_WORDS in call.argv or (single and not entry.spec.trusts):
        call.dynamic(f"a word only known at run time may be an option of {call.program}")


_HARMLESS_TABLE_WORDS = {
    "only", "reads", "uses", "read", "nothing", "recurses", "network-host", "namespace", "context",
    "logs",
}  # fmt: skip


def _is_harmless_rule(rule: OptionRule | None) -> bool:
    return rule is not None and rule.does[0] in _HARMLESS_TABLE_WORDS


def _check_allowed_options(call: ProgramCall, found: ParsedArguments, entry: ProgramEntry) -> None:
    """If the harmless options are listed, every other one is unknown."""
    allowed = entry.spec.harmless.split()
    if allowed and (ANY_WORDS in call.argv or found.loose):
        call.dynamic(f"a word only known at run time may be an option of {call.program}")
    for option, _ in found.options:
        if allowed and option not in allowed:
            call.mark(
                "unknown", f"{call.program} {display_text(option)} is not known to be harmless"
            )


_READING_ROLES = frozenset({"reads", "names", "text", "pattern"})


def has_only_reading_words(entry: ProgramEntry) -> bool:
    """Return whether it reads, whatever its words are."""
    return (
        _reads_only(entry.does)
        and entry.spec.args in _READING_ROLES
        and not entry.spec.verbs
        and not any(map(_is_harmful_rule, entry.option_rules))
    )


def _is_harmful_rule(rule: OptionRule) -> bool:
    return rule.does[0] not in _HARMLESS_TABLE_WORDS


def _set_target(call: ProgramCall, kind: str, words: list[str]) -> None:
    if kind and words:
        call.set_target(**{kind: words[0]})


def _apply_stdin(call: ProgramCall, entry: ProgramEntry, words: list[str]) -> None:
    kind = entry.spec.stdin
    if not kind or call.stdin is None:
        return
    if kind == "shell":
        call.dynamic(f"{call.program} runs what is piped into it")
        call.shell(call.stdin, stdin="")
    elif kind == "sql":
        mark_sql_effects(call, call.stdin)
    elif kind == "code":
        mark_unread_code(call, call.stdin, "its input")
    elif kind == "sends" and has_untrusted_text(call.stdin):
        call.mark("network-out", f"{call.program} sends what is piped into it")
