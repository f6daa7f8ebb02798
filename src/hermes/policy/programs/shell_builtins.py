"""Shell builtins that change its state, print known text, or run text as code."""

import re
from itertools import pairwise

from hermes.policy.commands import assignments, tables
from hermes.policy.commands.assignments import assigned_names, unknown_operand
from hermes.policy.commands.calls import ProgramCall
from hermes.policy.commands.declarations import declare, unset
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.expansions import format_printf, unescape_echo
from hermes.policy.commands.paths import resolve_path
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    ONE_OF_SEVERAL,
    SYSTEM_NAME,
    UNKNOWN_TEXT,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
    starts_unknown,
)
from hermes.policy.commands.tables import ProgramEntry
from hermes.policy.programs.table_effects import apply_table

_SUBSCRIPT_BUILTINS = word_set(
    "[ [[ test bind break caller compgen complete compopt continue declare dirs disown enable exit"
    " export fc getopts hash history jobs let local logout mapfile popd printf pushd read readarray"
    " readonly return shift shopt suspend typeset ulimit umask unalias unset wait"
)
"""All builtins but those that print their words, or whose words are analysed as commands."""
_USED_VARIABLE = re.compile(r"\$\{?[!#]?([A-Za-z_]\w*)", re.A)
_SUBSCRIPT = re.compile(r"\[.*(?:\$\(|`)", re.S)


def mark_subscripts(call: ProgramCall) -> None:
    """A name with a subscript, as a word of a builtin: `test -v 'a[$(CMD)]'`."""
    if call.program in _SUBSCRIPT_BUILTINS and any(_SUBSCRIPT.search(word) for word in call.argv):
        call.dynamic("a subscript that the shell runs as code")


def echo(call: ProgramCall, entry: ProgramEntry) -> str:
    words, escapes, newline = call.argv[1:], False, "\n"
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes = "e" in words[0]
        newline = "" if "n" in words[0] else newline
        words = words[1:]
    call.mark("read", "echo prints")
    _mark_secret_variables(call)
    text = literal_text(" ".join(words))
    return (unescape_echo(text) if escapes else text) + newline


def _mark_secret_variables(call: ProgramCall) -> None:
    for name in call.scope.used_variables:
        if assignments.SECRET_VARIABLE_NAME.search(name):
            call.mark("secret-read", f"prints ${name}")


def print_environment(call: ProgramCall, entry: ProgramEntry) -> str:
    call.mark("read", "prints the environment")
    call.scope.content_tests.add("a look at the environment")
    for word in call.argv[1:]:
        if assignments.SECRET_VARIABLE_NAME.search(word):
            call.mark("secret-read", f"prints {display_text(word)}")
    return ANY_WORD


def printf(call: ProgramCall, entry: ProgramEntry) -> str:
    words = call.argv[1:]
    variable = ""
    if words[:1] == [ANY_WORDS] or (len(words) > 1 and starts_unknown(words[0])):
        call.dynamic("a word only known at run time may be -v with a name that holds code")
    if words[:1] == ["-v"] and len(words) > 1:
        variable, words = words[1], words[2:]
    elif words and words[0].startswith("-v") and len(words[0]) > 2:
        variable, words = words[0][2:], words[1:]
    words = words[1:] if words[:1] == ["--"] else words
    if assignments.holds_code(variable, call.scope):
        call.dynamic("a subscript that is run")
    call.mark("read", "printf prints")
    _mark_secret_variables(call)
    known = (
        format_printf(literal_text(words[0]), [literal_text(word) for word in words[1:]])
        if words
        else ""
    )
    if known is None:
        known = ANY_WORD if any(map(has_untrusted_text, words)) or "%" in words[0] else SYSTEM_NAME
    if variable:
        assignments.bind_variable(call, variable, known)
        return ""
    return known


def change_folder(call: ProgramCall, entry: ProgramEntry) -> str:
    words = [word for word in call.argv[1:] if not re.fullmatch(r"-[LPe@]+|--", word)]
    call.mark("read", "changes the working folder")
    if call.program == "popd" or words[:1] == ["-"] or (words[:1] and words[0][:1] in "+-"):
        call.scope.cwd = ANY_WORD
    elif words:
        call.scope.cwd = resolve_path(words[0], call.scope.cwd)
        call.paths.append(call.scope.cwd)
    else:
        call.scope.cwd = call.scope.home
    return ""


def eval_words(call: ProgramCall, entry: ProgramEntry) -> str:
    """`eval`: the words as text of this shell."""
    text = " ".join(call.argv[1:])
    if not text:
        return ""
    if not is_fully_known(text):
        call.dynamic("eval of text that is only known at run time")
    return call.shell(text)


def source(call: ProgramCall, entry: ProgramEntry) -> str:
    call.dynamic(f"runs {display_text(' '.join(call.argv[1:2]))}, whose content is not read here")
    for word in call.argv[1:]:
        call.reads(word)
    if call.stdin is not None and call.argv[1:2] in (["/dev/stdin"], ["/dev/fd/0"], ["-"]):
        call.shell(call.stdin)
    return ANY_WORD


def trap(call: ProgramCall, entry: ProgramEntry) -> str:
    """The text runs later, in the state that the shell has then."""
    words = [word for word in call.argv[1:] if word != "--"]
    call.mark("read", "trap")
    if len(words) >= 2 and words[0] not in ("-", "", "-p", "-l", "-lp"):
        inner = call.scope.copy()
        call.shell(words[0], scope=inner)
        if inner != call.scope:
            call.dynamic("a trap changes the state of the shell at a time that is not known")
        call.scope.trapped.update(_USED_VARIABLE.findall(words[0]))
    return ""


def alias(call: ProgramCall, entry: ProgramEntry) -> str:
    call.mark("read", "alias")
    for word in call.argv[1:]:
        name, equals, text = word.partition("=")
        if not equals:
            continue
        if tables.find_program(name) is not None or not is_fully_known(word):
            call.dynamic(f"an alias takes the name of {display_text(name)}")
        call.scope.aliases[name] = text
        call.shell(text, scope=call.scope.copy())
    return ""


def read_variable(call: ProgramCall, entry: ProgramEntry) -> str:
    """`read x`: from a pipe with a known kind of text, or from anywhere."""
    apply_table(call, entry)
    value = _value_of_line(call)
    for word in (*call.argv[1:], "REPLY"):
        if re.fullmatch(r"[A-Za-z_]\w*", word):
            assignments.bind_variable(call, word, value)
        elif "$(" in word or "`" in word:
            call.dynamic("a subscript that is run")
        else:
            assignments.check_variable_name(call, word)
    return ""


_CODE = re.compile(r"[$`(\[]")


def _value_of_line(call: ProgramCall) -> str:
    """A line of the input. One of several known lines counts as a name, unless arithmetic would
    run it as code."""
    text = call.stdin
    if text is None or has_untrusted_text(text):
        return ANY_WORD
    if is_fully_known(text) and text.count("\n") <= 1:
        return text.strip()
    names = re.findall(r"[A-Za-z_]\w*", text)
    return ANY_WORD if _CODE.search(text) or call.scope.sets_any(names) else SYSTEM_NAME


def read_array(call: ProgramCall, entry: ProgramEntry) -> str:
    """`mapfile x`: the lines of the input; without a name into MAPFILE."""
    apply_table(call, entry)
    for word in (*call.argv[1:], "MAPFILE"):
        if re.fullmatch(r"[A-Za-z_]\w*", word):
            assignments.bind_variable(call, word, ANY_WORD)
        else:
            assignments.check_variable_name(call, word)
    return ""


def next_option(call: ProgramCall, entry: ProgramEntry) -> str:
    """`getopts abc: name` sets `name` to a letter, and OPTARG to the argument."""
    call.mark("read", "reads an option")
    if len(call.argv) > 2:
        assignments.bind_variable(call, call.argv[2], "?")
    assignments.bind_variable(call, "OPTARG", ANY_WORD)
    return ""


_NAME_OPTION = re.compile(r"-[a-z]*p(.*)", re.S)


def wait_for_process(call: ProgramCall, entry: ProgramEntry) -> str:
    """`wait -p name` sets `name` to a process id."""
    call.mark("read", "waits for a process")
    for option, following in pairwise([*call.argv[1:], ""]):
        if starts_unknown(option):
            call.dynamic("a word only known at run time may be -p with a name that holds code")
        elif found := _NAME_OPTION.match(option):
            name = found[1] or following
            if "[" in name:
                call.dynamic(f"wait -p {name}, whose subscript the shell would run as code")
            assignments.bind_variable(call, name, "0")
    return ""


def test_expression(call: ProgramCall, entry: ProgramEntry) -> str:
    """`test -v name` evaluates the subscript of the name; nothing else is evaluated."""
    apply_table(call, entry)
    if len(call.argv) > 3 and any(map(has_untrusted_text, call.argv[1:])):
        call.scope.content_tests.add("a test")
    if unknown := assignments.evaluated_test_word(call.argv[1:], call.scope):
        call.dynamic(f"a test of {unknown}, which the shell would run as code")
    return ""


_EXPORT_OPTION = re.compile(r"-[A-Za-z]*[ak][A-Za-z]*\Z")


def set_options(call: ProgramCall, entry: ProgramEntry) -> str:
    """`set -- a b` replaces the positional parameters."""
    words = call.argv[1:]
    call.mark("read", "set")
    before = words[: words.index("--")] if "--" in words else words
    if any(_EXPORT_OPTION.match(word) or word in ("allexport", "keyword") for word in before):
        call.dynamic("from now on programs see every variable that is set")
    if "--" in words:
        rest = words[words.index("--") + 1 :]
        call.scope.arguments = ("bash", *rest)
    elif words and words[0][:1] not in "-+":
        call.scope.arguments = ("bash", *words)
    elif any(word[:1] not in "-+" and before[-1] != "o" for before, word in pairwise(words)):
        call.scope.arguments = ("bash", ANY_WORDS)  # parameters behind options
    return ANY_WORD


_PLAIN_SHELL_OPTIONS = word_set(
    "dotglob globstar nocaseglob nocasematch failglob expand_aliases histappend checkwinsize"
    " inherit_errexit globasciiranges progcomp"
)


def shell_options(call: ProgramCall, entry: ProgramEntry) -> str:
    """With `shopt -s nullglob` words vanish, with `lastpipe` variables stay."""
    apply_table(call, entry)
    words = call.argv[1:]
    options = [word for word in words if word[:1] == "-"]
    names = [word for word in words if word[:1] != "-"]
    if any("s" in each or "u" in each for each in options) and not _PLAIN_SHELL_OPTIONS.issuperset(
        names
    ):
        call.dynamic("an option of the shell changes how words and variables are read")
    return ANY_WORD


def replace_shell(call: ProgramCall, entry: ProgramEntry) -> str:
    """`exec`: -a sets another name, -c clears the environment."""
    words = call.argv[1:]
    while words and re.fullmatch(r"-[cla]+|--", words[0]):
        words = words[2:] if "a" in words[0] else words[1:]
    if not words:
        call.mark("read", "exec changes the shell's own files")
        if call.stdin:
            call.dynamic("later commands read what exec opened as their input")
    return call.run(words)


def builtin(call: ProgramCall, entry: ProgramEntry) -> str:
    """`command` and `builtin`: ignore functions and aliases."""
    words = call.argv[1:]
    while words and re.fullmatch(r"-[pvV]+|--", words[0]):
        if "v" in words[0] or "V" in words[0]:
            call.mark("read", "tells where a program is")
            return ONE_OF_SEVERAL + literal_text(" ".join(words[1:])) + "\n"
        words = words[1:]
    if not words:
        call.mark("read", call.program)
        return ""
    scope = call.scope
    hidden = {name: scope.functions.pop(name) for name in [words[0]] if name in scope.functions}
    alias_ = {name: scope.aliases.pop(name) for name in [words[0]] if name in scope.aliases}
    printed = call.run(words)
    scope.functions.update(hidden)
    scope.aliases.update(alias_)
    return printed


def which(call: ProgramCall, entry: ProgramEntry) -> str:
    """`which x` prints a path that ends in x."""
    call.mark("read", "tells where a program is")
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    known = len(words) == 1 and "/" not in words[0]
    return f"{ONE_OF_SEVERAL}/usr/bin/{words[0]}\n" if known else ANY_WORD


def export(call: ProgramCall, entry: ProgramEntry) -> str:
    """Declarations that were parsed as ordinary commands."""
    call.mark("read", call.program)
    declare(call)
    return ANY_WORD


def unset_names(call: ProgramCall, entry: ProgramEntry) -> str:
    """`unset` that was parsed as an ordinary command."""
    call.mark("read", call.program)
    unset(call)
    return ""


def shift(call: ProgramCall, entry: ProgramEntry) -> str:
    call.mark("read", "shift")
    count = call.argv[1] if len(call.argv) > 1 else "1"
    known = call.scope.arguments
    if known is not None and count.isdigit() and ANY_WORDS not in known:
        call.scope.arguments = (known[0], *known[1 + int(count) :])
    elif known is not None:
        call.scope.arguments = ("bash", ANY_WORDS)
    return ""


def let(call: ProgramCall, entry: ProgramEntry) -> str:
    call.mark("read", "arithmetic")
    for word in call.argv[1:]:
        if (
            UNKNOWN_TEXT.search(word)
            or "[" in literal_text(word)
            or unknown_operand(word, call.scope)
        ):
            call.dynamic("arithmetic over text that is only known at run time")
        call.scope.variables.update(dict.fromkeys(assigned_names(literal_text(word)), SYSTEM_NAME))
    return ""
