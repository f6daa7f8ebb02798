"""Reads assignments, and finds those and the arithmetic expressions that can run code.

Bash evaluates the text of a variable as an expression again, and a subscript in it may contain a
command substitution: `x='a[$(reboot)]'; echo $((x))`. An expression is harmless only when every
value in it is known to be a number.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise

from hermes.policy.commands.calls import ProgramCall, ScriptWalk
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    LIVE_GLOB,
    ONE_OF_SEVERAL,
    SYSTEM_NAME,
    display_text,
    has_untrusted_text,
    is_fully_known,
    literal_text,
    starts_unknown,
)
from hermes.policy.commands.scope import ShellScope, VariableValue
from hermes.policy.commands.server_settings import SAFE_ENCODING, are_harmless_options
from hermes.policy.commands.syntax import Node, ShellSyntaxError
from hermes.policy.commands.tables import find_program, path_lists, variable_decides_code

_NUMBER = re.compile(rf"[\s{SYSTEM_NAME}{ONE_OF_SEVERAL}0-9+-]*\Z")
_LENGTH_EXPANSION = re.compile(r"\$\{#[^}]*\}")
_IDENTIFIER = re.compile(r"(?<![\w#])[A-Za-z_]\w*", re.A)
_BASED_NUMBER = re.compile(r"\b(?:0[xX][0-9a-fA-F]+|\d+#[0-9A-Za-z@_]+)")
_ASSIGNED_VARIABLE = re.compile(r"\b([A-Za-z_]\w*)\s*(?:=(?!=)|[-+*/%]=|\+\+|--)", re.A)
_ASSIGNMENT_OPERATOR = re.compile(r"[=\[]|\+\+|--")
_COMPARISON = re.compile(r"\s-(?:eq|ne|lt|le|gt|ge)\s")
_QUOTED_OPERAND = r"""((?:"(?:[^"\\]|\\.)*"|'[^']*'|\$\{[^}]*\}|[^\s"'])+)"""
_OPERAND = re.compile(rf"{_QUOTED_OPERAND}\s+-(?:eq|ne|lt|le|gt|ge)\s+{_QUOTED_OPERAND}")
_VARIABLE_TEST = re.compile(rf"-[vR]\s+{_QUOTED_OPERAND}")
_NAME_TESTS = ("-v", "-R")
"""Tests whose operand is the name of a variable, with a subscript that is evaluated."""
_SUBSTITUTION = re.compile(r"\$\((?!\()|`")
_POSITIONAL = re.compile(r"\$\{?(\d+|[@*])")
_BRACED_PARAMETER = re.compile(r"\$\{([!#]?)([A-Za-z_]\w*|\d+|[@*#?$!_-])(?:\[([^\]]*)\])?", re.A)
_CODE_IN_PROMPT = re.compile(r"[$`]|\\[0-7]")


def is_number(value: VariableValue | None) -> bool:
    if value is None:
        return False
    texts = value if isinstance(value, tuple) else (value,)
    return all(_NUMBER.match(text) for text in texts)


def unknown_operand(text: str, scope: ShellScope, outputs: Iterable[str] = ()) -> str:
    """The operand of an expression that may be anything; empty when all are numbers.

    `outputs` are the outputs of the command substitutions in it.
    """
    if any(not is_number(output) for output in outputs):
        return "the output of a command"
    plain = _BASED_NUMBER.sub("0", _LENGTH_EXPANSION.sub("0", _outside_substitutions(text)))
    names = dict.fromkeys(_IDENTIFIER.findall(plain))
    counters = frozenset(_ASSIGNED_VARIABLE.findall(plain))
    if steering := next(filter(variable_decides_code, map(str, names)), ""):
        return f"{steering}, which decides what code runs and"
    for name in map(str, names):
        value = scope.value(name)
        if not is_number(value) and not (value is None and name in counters):
            return name
    for name in _POSITIONAL.findall(plain):
        if not is_number(_positional_value(name, scope)):
            return f"${name}"
    return ""


def _positional_value(name: str, scope: ShellScope) -> VariableValue | None:
    """Without known arguments it is empty, or the body of a function that is read at each call."""
    return "" if scope.arguments is None else scope.value(name)


def find_evaluated_text(text: str, scope: ShellScope, outputs: Iterable[str] = ()) -> str:
    """Text that the expansions in a text evaluate as code and that may be anything; or empty.

    `${x@P}` expands a value as a prompt, `${!x}` uses it as a name, offsets and subscripts are
    arithmetic. `outputs` are the outputs of the command substitutions in the text.
    """
    outputs = tuple(outputs)
    for found in _BRACED_PARAMETER.finditer(text):
        sigil, name, index = found.groups()
        rest = _until_closing_brace(text, found.end())
        value = _positional_value(name, scope) if name in "@*" or name.isdigit() else None
        values = _as_texts(scope.value(name) if value is None else value)
        lists = sigil == "!" and (rest in ("@", "*") or index in ("@", "*"))
        if rest == "@P" and (sigil == "!" or not all(map(_is_plain_prompt, values))):
            return f"a prompt in {name}"
        if sigil == "!" and not lists and not all(_is_plain_name(one, scope) for one in values):
            return f"a name in {name}"
        evaluated = []
        if index not in (None, "@", "*") and name not in scope.associative:
            evaluated.append(index)
        if rest[:1] == ":" and rest[1:2] not in (*"-=+?",):
            evaluated += rest[1:].split(":")
        for each in evaluated:
            inner = outputs if _SUBSTITUTION.search(each) else ()
            if unknown := unknown_operand(each, scope, inner):
                return f"a subscript or an offset of {unknown}"
    return ""


def _as_texts(value: VariableValue | None) -> tuple[str, ...]:
    if value is None:
        return (ANY_WORD,)
    return value if isinstance(value, tuple) else (value,)


def _is_plain_prompt(text: str) -> bool:
    """A prompt may write a dollar sign as an octal number."""
    return is_fully_known(text) and not _CODE_IN_PROMPT.search(text)


def _is_plain_name(text: str, scope: ShellScope) -> bool:
    name, bracket, index = text.partition("[")
    if is_number(text) or not bracket:
        return is_number(text) or _VARIABLE_NAME.match(text) is not None
    plain = is_fully_known(text) and _VARIABLE_NAME.match(name) is not None
    return plain and (index in ("@]", "*]") or not unknown_operand(index.rstrip("]"), scope))


def _until_closing_brace(text: str, start: int) -> str:
    depth, at = 1, start
    while at < len(text):
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        if depth == 0:
            break
        at += 1
    return text[start:at]


def assigned_names(text: str) -> list[str]:
    """Variables that an expression sets; they are numbers afterwards."""
    return _ASSIGNED_VARIABLE.findall(_outside_substitutions(text))


def unknown_in_test(text: str, scope: ShellScope, outputs: Iterable[str]) -> str:
    """The same for `[[ … ]]`, where only numeric comparisons and `-v` evaluate their operands."""
    text = text.replace("\\\n", " ")
    operands = _VARIABLE_TEST.findall(text)
    compares = _COMPARISON.search(text)
    if (compares or operands) and (unknown := unknown_operand("", scope, outputs)):
        return unknown
    if compares:
        operands += [each for pair in _OPERAND.findall(text) for each in pair]
    for operand in operands:
        bare = operand.strip("\"'")
        evaluated = "$" in bare or bare in scope.variables or _ASSIGNMENT_OPERATOR.search(bare)
        if evaluated and (unknown := unknown_operand(bare, scope)):
            return unknown
    return ""


def evaluated_test_word(words: Sequence[str], scope: ShellScope) -> str:
    """A word of `test` or `[` that may be the name of a variable with code in it; or empty.

    Several words of run time, or a name of a file that is split, may hold `-v name[code]`. In
    quotes one word may be `-v`, and only the next one the name.
    """
    for word, following in pairwise([*words, ""]):
        if ANY_WORDS in word or LIVE_GLOB.search(word):
            return "words that are only known at run time"
        if (word in _NAME_TESTS or starts_unknown(word)) and holds_code(following, scope):
            return "a name that is only known at run time"
    return ""


_VARIABLE_USE = re.compile(r"\$\{?[!#]?(\w+)")
_PRESENCE_TEST = re.compile(r"\[\[?\s+!?\s*-[a-uw-z]\s+\S+\s+\]\]?\Z")
_SECRET_VARIABLE = re.compile(
    r"(?i)pass(?:w|phrase|\b|_|$)|secret|token|credential|(?:api|access|private|signing)_?key"
)


def note_content_test(text: str, found: Iterable[str], scope: ShellScope) -> None:
    """Remembers a test of text that was read, or of a variable with a secret.

    `found` is the text after expansion. Requests that follow it tell its result.
    """
    if _PRESENCE_TEST.match(text):
        return
    names = set(_VARIABLE_USE.findall(text))
    held = (each for name in names for each in _as_texts(scope.variables.get(name, "")))
    printed = found if "$(" in text or "`" in text else ()
    if any(map(has_untrusted_text, (*held, *printed))) or any(map(_SECRET_VARIABLE.search, names)):
        scope.content_tests.add(text[:80])


def holds_code(name: str, scope: ShellScope) -> bool:
    """Return whether the shell may run code when it looks up a variable of this name."""
    if has_untrusted_text(name):
        return True
    _, bracket, index = literal_text(name).partition("[")
    index = index.removesuffix("]")
    if not bracket or index in ("@", "*"):
        return False
    return _CODE_EXPANSION.search(index) is not None or bool(unknown_operand(index, scope))


def _outside_substitutions(text: str) -> str:
    """The text without its command substitutions, whose output is checked separately."""
    kept, at = [], 0
    while found := _SUBSTITUTION.search(text, at):
        kept.append(text[at : found.start()])
        at = _substitution_end(text, found)
    return "".join([*kept, text[at:]])


def _substitution_end(text: str, found: re.Match[str]) -> int:
    if found.group() == "`":
        close = text.find("`", found.end())
        return close + 1 if close >= 0 else len(text)
    depth, at = 1, found.end()
    while at < len(text) and depth:
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


_MAX_VALUE_CHARS = 4000
"""Longer values count as unknown; a=$b$b, b=$a$a, … would double forever."""
_ARRAY_ELEMENT = re.compile(r"\[(.*?)\]\+?=", re.S)
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_CODE_EXPANSION = re.compile(r"\$\(|`|\$\{.*@P\}")
_INTEGER_VARIABLES = frozenset({"RANDOM", "OPTIND", "HISTCMD"})
"""Variables of the shell with the attribute -i."""
_REMOTE_URL = re.compile(r"\w+://(?!(?:localhost|127\.|\[::1\]))")
_PATH = re.compile(r"(?:^|(?<=[:=,\s]))(?:~|\.{1,2})?/[^\s:,]*")


def read_assignment(walk: ScriptWalk, node: Node, scope: ShellScope) -> tuple[str, VariableValue]:
    """Name and value of `name=value`, `name+=value` or `name=(…)`."""
    found = walk.children(node)
    if found[0].type != "variable_name":
        text = walk.text[found[0].start_byte : found[0].end_byte].decode("utf-8", "replace")
        name, _, index = text.partition("[")
        _check_subscript(walk, found[0], scope, name, index.rstrip("]"))
        for child in found[1:]:
            walk.substitutions(child, scope)
        return name, ANY_WORD
    name = walk.text[found[0].start_byte : found[0].end_byte].decode("utf-8", "replace")
    if not _VARIABLE_NAME.match(name):
        raise ShellSyntaxError("an assignment to what is no variable")
    if len(found) < 3:
        return name, ""
    if found[-1].start_byte != found[1].end_byte or len(found) > 3:
        raise ShellSyntaxError("an assignment in several pieces")
    value: VariableValue
    if found[2].type == "array":
        inner = [child for child in walk.children(found[2]) if child.type not in "()"]
        for child in inner:
            text = walk.text[child.start_byte : child.end_byte].decode("utf-8", "replace")
            if element := _ARRAY_ELEMENT.match(text):
                _check_subscript(walk, child, scope, name, element[1])
        value = tuple(word for child in inner for word in walk.fields(child, scope).words)
    else:
        value = walk.value(found[2], scope)
    value = _append_value(scope, name, value) if found[1].type == "+=" else value
    if sum(map(len, _as_tuple(value))) > _MAX_VALUE_CHARS:
        raise ShellSyntaxError(f"a variable of more than {_MAX_VALUE_CHARS} characters")
    return name, value


def _check_subscript(
    walk: ScriptWalk, node: Node, scope: ShellScope, name: str, index: str
) -> None:
    outputs = walk.substitutions(node, scope)
    if name in scope.associative:
        return
    if unknown := unknown_operand(index, scope, outputs if _SUBSTITUTION.search(index) else ()):
        call = walk.call(node, scope)
        call.dynamic(f"a subscript of {unknown}, which the shell would run as code")
        walk.keep(call)


def _append_value(scope: ShellScope, name: str, value: VariableValue) -> VariableValue:
    before = scope.value(name)
    if before is None:
        return ANY_WORD
    if isinstance(before, str) and isinstance(value, str):
        return before + value
    return (*_as_tuple(before), *_as_tuple(value))


def _as_tuple(value: VariableValue) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else (value,)


def check_assignment(call: ProgramCall, name: str, value: VariableValue) -> None:
    """Marks the effects of setting a variable."""
    if name in call.scope.trapped and call.scope.variables.get(name) != value:
        call.dynamic(f"a trap uses {name}, which changes")
    if variable_decides_code(name) and not _is_harmless_value(call, name, value):
        call.dynamic(f"{name} decides which code runs")
    if (name in call.scope.integers or name in _INTEGER_VARIABLES) and not is_number(value):
        call.dynamic(f"{name} is an integer, so the shell evaluates what is assigned to it")
    for text in _as_tuple(value):
        if _CODE_EXPANSION.search(text):
            call.dynamic(f"{name} holds shell code, which arithmetic and prompts would run")
        if text[:1] in "/~" and call.analyst.classifier.is_secret(call.path(text)):
            call.mark("secret-read", f"{name} names {display_text(text)}, which holds secrets")


def check_exported_variable(call: ProgramCall, name: str, value: VariableValue) -> None:
    """An exported variable with an unknown name may choose code by a file or a host.

    The names that are known to do so are in the tables; this is for all others.
    """
    _check_request_log(call, name, value)
    if name == "PGCLIENTENCODING" and not all(map(_SAFE_ENCODING.match, _as_tuple(value))):
        call.dynamic(f"{name} sets an encoding in which quotes end elsewhere")
    if name.startswith(_SENT_VARIABLES) and any(map(_LINE_BREAK.search, _as_tuple(value))):
        call.mark("network-out", f"{name} holds a line break: more is sent")
    if is_harmless_variable(name) and name.startswith(_SENT_VARIABLES):
        sent = () if _connects_to_socket(call) else _as_tuple(value)
        for text in filter(has_untrusted_text, sent):
            call.mark("network-out", f"{name} sends {display_text(text)}, known only at run time")
    if variable_decides_code(name) or is_harmless_variable(name):
        return
    if name.endswith(tuple(path_lists()["exported_variables"])):
        call.dynamic(f"{name} may decide which code a program runs, or where it connects")
    for text in _as_tuple(value):
        if has_untrusted_text(text):
            call.dynamic(f"{name} is handed to programs, with a value only known at run time")
        elif _REMOTE_URL.search(text) or any(
            call.analyst.classifier.agent_may_have_written(call.path(path))
            for path in _PATH.findall(text)
        ):
            call.dynamic(f"{name} hands {display_text(text)} to programs that may run or obey it")


_REQUEST_LOG_NAME = re.compile(
    r"(?:\w*_)?(?:LOG|TRACE|DEBUG|VERBOSE|VERBOSITY|DUMP|CURL_STRING)(?:_\w+)?|(?:GO|HTTP)DEBUG"
)
"""Variables by which clients log what they do, such as TF_LOG, GODEBUG and AWS_DEBUG."""
_MUCH_LOGGED = re.compile(
    r"(?i)debug|trace|silly|verbose|api|http|auth|header|\*|true|all|yes|on$|[1-9]"
)


def _check_request_log(call: ProgramCall, name: str, value: VariableValue) -> None:
    if not _REQUEST_LOG_NAME.fullmatch(name) or not _logs_requests(call):
        return
    for text in _as_tuple(value):
        if _MUCH_LOGGED.search(text) or has_untrusted_text(text):
            call.mark("secret-read", f"{name} makes clients print requests with their tokens")


def _logs_requests(call: ProgramCall) -> bool:
    """Return whether the program may log in anywhere; variables for all later ones count, too."""
    if not call.argv or call.program == "export" or exports_variable(call.argv):
        return True
    entry = find_program(call.argv[0].rpartition("/")[2])
    quiet = entry is not None and (entry.spec.opens in ("nothing", "named") or entry.spec.escapes)
    return not quiet


def _connects_to_socket(call: ProgramCall) -> bool:
    """Return whether a client of PostgreSQL uses a socket of this host: `-h /run/postgresql`."""
    hosts = [value for option, value in pairwise(call.argv) if option in ("-h", "--host")]
    named = bool(hosts) and all(each.startswith("/") for each in hosts)
    return named and not any(map(has_untrusted_text, hosts))


_INHERITED_SETTING = re.compile(r"""([A-Z_]+)="?\$\{?([A-Za-z_]\w*)\}?"?\Z""", re.A)


def is_inherited_setting(text: str, scope: ShellScope) -> bool:
    """Return whether an assignment hands a variable of the environment to a client as its login."""
    found = _INHERITED_SETTING.match(text)
    return bool(found and is_harmless_variable(found[1]) and found[2] not in scope.variables)


_SAFE_ENCODING = re.compile(SAFE_ENCODING, re.IGNORECASE)
_LINE_BREAK = re.compile(r"[\r\n]")
_SENT_VARIABLES = ("PG", "MYSQL_", "REDISCLI_", "AWS_", "TF_VAR_")
"""Variables whose values clients send to a server."""


def check_variable_name(call: ProgramCall, name: str) -> None:
    """Checks the name of a variable that a builtin sets; its subscript is evaluated."""
    if has_untrusted_text(name):
        call.dynamic("the name of the variable is only known at run time, and may hold code")


def is_harmless_variable(name: str) -> bool:
    """Return whether it changes only language, time zone, width or verbosity."""
    return any(
        name == one or (one.endswith("*") and name.startswith(one[:-1]))
        for one in path_lists()["harmless_variables"]
    )


def exports_variable(words: list[str]) -> bool:
    """Return whether options of `declare` make the variable visible to programs."""
    return any(word.startswith("-") and "x" in word for word in words[1:])


def check_withdrawn_variables(call: ProgramCall) -> None:
    """`export -n NAME`, `declare +x NAME`, `local NAME`: programs no longer see the variable."""
    words, prints = call.argv[1:], any(re.match(r"-[a-z]*p", word) for word in call.argv[1:])
    exports = call.program == "export" and not any(re.match(r"-[a-z]*n", word) for word in words)
    if call.program == "readonly" or prints or exports:
        return
    for word in words:
        if "=" not in word and variable_decides_code(word):
            call.dynamic(f"{word} decides what runs, and would be taken away from programs")


def bind_variable(call: ProgramCall, name: str, value: VariableValue) -> None:
    """Sets the variable of a builtin such as `read`."""
    check_variable_name(call, name)
    check_assignment(call, name, value)
    call.scope.variables[name] = value


def _is_harmless_value(call: ProgramCall, name: str, value: VariableValue) -> bool:
    if not isinstance(value, str):
        return False
    if name == "PATH":
        folders = value.replace(ONE_OF_SEVERAL, "").split(":")
        return all(map(call.analyst.classifier.is_trusted_folder, folders))
    if name == "KUBECONFIG":
        # The file can name a program for the credentials.
        trusted = call.analyst.classifier.is_trusted_configuration
        return not has_untrusted_text(value) and all(
            trusted(call.path(file)) for file in value.split(":") if file
        )
    if name == "PGOPTIONS":
        return are_harmless_options(value)
    quiet = {"PAGER", "GIT_PAGER", "SYSTEMD_PAGER", "MANPAGER", "AWS_PAGER", "KUBECTL_PAGER"}
    return (
        name in quiet and value in ("", "cat", "less", "/bin/cat") and not has_untrusted_text(value)
    )


SECRET_VARIABLE_NAME = re.compile(
    r"(?i)(?:secret|token|passw|api_?key|private_?key|credential|access_?key)"
)


def mark_printed_variables(call: ProgramCall) -> None:
    """`declare -p NAME` prints a variable as `printenv NAME` does."""
    if not any(re.match(r"-[a-zA-Z]*p", word) for word in call.argv[1:]):
        return
    for word in call.argv[1:]:
        if SECRET_VARIABLE_NAME.search(word):
            call.mark("secret-read", f"prints {display_text(word)}")
