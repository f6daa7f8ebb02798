"""Builtins of the shell that change its state, print known text, or run text as code."""

import re
from itertools import pairwise

from hermes.policy.commands import assignments, tables
from hermes.policy.commands.arithmetic import assigned_names, unknown_operand
from hermes.policy.commands.calls import Call
from hermes.policy.commands.escapes import echoed, formatted
from hermes.policy.commands.generic import by_table
from hermes.policy.commands.marks import ANY, MAYBE, NAME, UNKNOWN, foreign, literal, settled, shown
from hermes.policy.commands.paths import resolve
from hermes.policy.commands.tables import Program

_SECRET_NAME = re.compile(
    r"(?i)(?:secret|token|passw|api_?key|private_?key|credential|access_?key)"
)


def echo(call: Call, entry: Program) -> str:
    words, escapes, newline = call.argv[1:], False, "\n"
    while words and re.fullmatch(r"-[neE]+", words[0]):
        escapes = "e" in words[0]
        newline = "" if "n" in words[0] else newline
        words = words[1:]
    call.mark("read", "echo prints")
    _secrets(call)
    text = literal(" ".join(words))
    return (echoed(text) if escapes else text) + newline


def _secrets(call: Call) -> None:
    for name in call.scope.seen:
        if _SECRET_NAME.search(name):
            call.mark("secret-read", f"prints ${name}")


def print_environment(call: Call, entry: Program) -> str:
    call.mark("read", "prints the environment")
    for word in call.argv[1:]:
        if _SECRET_NAME.search(word):
            call.mark("secret-read", f"prints {shown(word)}")
    return ANY


def printf(call: Call, entry: Program) -> str:
    words = call.argv[1:]
    variable = ""
    if words[:1] == ["-v"] and len(words) > 1:
        variable, words = words[1], words[2:]
        if "$(" in variable or "`" in variable:
            call.dynamic("a subscript that is run")
    elif words and words[0].startswith("-v") and len(words[0]) > 2:
        variable, words = words[0][2:], words[1:]
    words = words[1:] if words[:1] == ["--"] else words
    call.mark("read", "printf prints")
    _secrets(call)
    known = formatted(literal(words[0]), [literal(word) for word in words[1:]]) if words else ""
    if known is None:
        known = ANY if any(map(foreign, words)) or "%" in words[0] else NAME
    if variable:
        assignments.bind(call, variable, known)
        return ""
    return known


def change_folder(call: Call, entry: Program) -> str:
    words = [word for word in call.argv[1:] if not re.fullmatch(r"-[LPe@]+|--", word)]
    call.mark("read", "changes the working folder")
    if call.program == "popd" or words[:1] == ["-"] or (words[:1] and words[0][:1] in "+-"):
        call.scope.cwd = ANY
    elif words:
        call.scope.cwd = resolve(words[0], call.scope.cwd)
        call.paths.append(call.scope.cwd)
    else:
        call.scope.cwd = call.scope.home
    return ""


def evaluate(call: Call, entry: Program) -> str:
    """`eval`: the words once more, as text of this very shell."""
    text = " ".join(call.argv[1:])
    if not text:
        return ""
    if not settled(text):
        call.dynamic("eval of text that is only known at run time")
    return call.shell(text)


def source(call: Call, entry: Program) -> str:
    call.dynamic(f"runs {shown(' '.join(call.argv[1:2]))}, whose content is not read here")
    for word in call.argv[1:]:
        call.reads(word)
    if call.stdin is not None and call.argv[1:2] in (["/dev/stdin"], ["/dev/fd/0"], ["-"]):
        call.shell(call.stdin)
    return ANY


def trap(call: Call, entry: Program) -> str:
    words = [word for word in call.argv[1:] if word != "--"]
    call.mark("read", "trap")
    if len(words) >= 2 and words[0] not in ("-", "", "-p", "-l", "-lp"):
        call.shell(words[0])
    return ""


def alias(call: Call, entry: Program) -> str:
    call.mark("read", "alias")
    for word in call.argv[1:]:
        name, equals, text = word.partition("=")
        if not equals:
            continue
        if tables.program(name) is not None or not settled(word):
            call.dynamic(f"an alias takes the name of {shown(name)}")
        call.scope.aliases[name] = text
        call.shell(text, scope=call.scope.copy())
    return ""


def read_variable(call: Call, entry: Program) -> str:
    """`read x`: from a pipe whose kind is known, or from anybody."""
    by_table(call, entry)
    value = NAME if call.stdin is not None and not foreign(call.stdin) else ANY
    if call.stdin is not None and settled(call.stdin) and call.stdin.count("\n") <= 1:
        value = call.stdin.strip()
    for word in call.argv[1:]:
        if re.fullmatch(r"[A-Za-z_]\w*", word):
            assignments.bind(call, word, value)
        elif "$(" in word or "`" in word:
            call.dynamic("a subscript that is run")
        else:
            assignments.check_name(call, word)
    return ""


def read_array(call: Call, entry: Program) -> str:
    """`mapfile x`: the lines of somebody's text; without a name they go to MAPFILE."""
    by_table(call, entry)
    for word in call.argv[1:]:
        if re.fullmatch(r"[A-Za-z_]\w*", word):
            assignments.bind(call, word, ANY)
        else:
            assignments.check_name(call, word)
    return ""


def next_option(call: Call, entry: Program) -> str:
    """`getopts abc: name` puts a letter into `name`, and the argument into OPTARG."""
    call.mark("read", "reads an option")
    if len(call.argv) > 2:
        assignments.bind(call, call.argv[2], "?")
    call.scope.variables["OPTARG"] = ANY
    return ""


def wait(call: Call, entry: Program) -> str:
    """`wait -p name` puts the number of a process into `name`."""
    call.mark("read", "waits for a process")
    words = call.argv[1:]
    if "-p" in words and (rest := words[words.index("-p") + 1 :]):
        assignments.bind(call, rest[0], "0")
    return ""


def compare(call: Call, entry: Program) -> str:
    """`test -v name` evaluates the subscript of the name; nothing else in it is code."""
    by_table(call, entry)
    words = call.argv[1:]
    for option, word in pairwise(words):
        if option in ("-v", "-R"):
            assignments.check_name(call, word)
    return ""


_EXPORTING = re.compile(r"-[A-Za-z]*[ak][A-Za-z]*\Z")


def set_options(call: Call, entry: Program) -> str:
    """`set -- a b` replaces the positional parameters."""
    words = call.argv[1:]
    call.mark("read", "set")
    before = words[: words.index("--")] if "--" in words else words
    if any(_EXPORTING.match(word) or word in ("allexport", "keyword") for word in before):
        call.dynamic("from now on programs see every variable that is set")
    if "--" in words:
        rest = words[words.index("--") + 1 :]
        call.scope.arguments = ("bash", *rest)
    elif words and words[0][:1] not in "-+":
        call.scope.arguments = ("bash", *words)
    return ANY


def replace_shell(call: Call, entry: Program) -> str:
    """`exec`: -a gives a false name, -c empties the environment."""
    words = call.argv[1:]
    while words and re.fullmatch(r"-[cla]+|--", words[0]):
        words = words[2:] if "a" in words[0] else words[1:]
    if not words:
        call.mark("read", "exec changes the shell's own files")
    return call.run(words)


def builtin(call: Call, entry: Program) -> str:
    """`command` and `builtin`: functions and aliases are passed by."""
    words = call.argv[1:]
    while words and re.fullmatch(r"-[pvV]+|--", words[0]):
        if "v" in words[0] or "V" in words[0]:
            call.mark("read", "tells where a program is")
            return MAYBE + literal(" ".join(words[1:])) + "\n"
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


def where(call: Call, entry: Program) -> str:
    """`which x` prints a path that is known to end in x."""
    call.mark("read", "tells where a program is")
    words = [word for word in call.argv[1:] if not word.startswith("-")]
    known = len(words) == 1 and "/" not in words[0]
    return f"{MAYBE}/usr/bin/{words[0]}\n" if known else ANY


def export(call: Call, entry: Program) -> str:
    """Declarations that the parser took for ordinary commands."""
    call.mark("read", call.program)
    for word in call.argv[1:]:
        name, equals, value = word.partition("=")
        assignments.check_name(call, name)
        if equals:
            assignments.check(call, name, value)
            if call.program == "export" or assignments.exports(call.argv):
                assignments.check_exported(call, name, value)
            call.scope.variables[name] = value
    return ANY


def shift(call: Call, entry: Program) -> str:
    call.mark("read", "shift")
    count = call.argv[1] if len(call.argv) > 1 else "1"
    known = call.scope.arguments
    if known is not None and count.isdigit():
        call.scope.arguments = (known[0], *known[1 + int(count) :])
    else:
        call.scope.arguments = None
    return ""


def let(call: Call, entry: Program) -> str:
    call.mark("read", "arithmetic")
    for word in call.argv[1:]:
        if UNKNOWN.search(word) or "[" in literal(word) or unknown_operand(word, call.scope):
            call.dynamic("arithmetic over text that is only known at run time")
        call.scope.variables.update(dict.fromkeys(assigned_names(literal(word)), NAME))
    return ""
