"""Analyses `export`, `declare`, `local`, `readonly`, `typeset` and `unset`."""

from collections.abc import Iterable

from hermes.policy.commands import assignments
from hermes.policy.commands.calls import ProgramCall, ScriptWalk
from hermes.policy.commands.placeholders import ANY_WORD, is_fully_known
from hermes.policy.commands.scope import ShellScope, VariableValue
from hermes.policy.commands.syntax import Node
from hermes.policy.commands.tables import variable_decides_code


def walk_declaration(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """A declaration that the parser recognises."""
    found = walk.children(node)
    call = walk.call(node, scope)
    call.program = found[0].type
    call.argv = [call.program]
    for child in found[1:]:
        if child.type == "variable_assignment":
            first = child.children[0]
            _note_attributes(call, walk.text[first.start_byte : first.end_byte].decode())
            name, value = assignments.read_assignment(walk, child, scope)
            _declare_value(call, name, value)
        else:
            words = walk.fields(child, scope).words
            call.argv += words
            _declare_words(call, words)
    _finish(call)
    walk.keep(call)
    return ANY_WORD


def declare(call: ProgramCall) -> None:
    """A declaration that the parser takes for an ordinary command: `\\declare -i x`."""
    _declare_words(call, call.argv[1:])
    _finish(call)


def _finish(call: ProgramCall) -> None:
    assignments.mark_printed_variables(call)
    assignments.check_withdrawn_variables(call)


def _declare_words(call: ProgramCall, words: Iterable[str]) -> None:
    for word in words:
        name, equals, value = word.partition("=")
        if "$(" in word or "`" in word:
            call.dynamic("a subscript that the shell runs as code")
        assignments.check_variable_name(call, name)
        _note_attributes(call, name)
        if equals:
            _declare_value(call, name, value)
        elif word.startswith("-") and "n" in word and call.program != "export":
            call.dynamic("a variable that stands for another one")
        elif call.program == "local":
            call.scope.declare_local(name)
        elif call.program == "export" and (known := call.scope.variables.get(name)) is not None:
            assignments.check_exported_variable(call, name, known)


def _declare_value(call: ProgramCall, name: str, value: VariableValue) -> None:
    if call.program == "local":
        call.scope.declare_local(name)
    _check_array_text(call, name, value)
    assignments.check_assignment(call, name, value)
    if call.program == "export" or assignments.exports_variable(call.argv):
        assignments.check_exported_variable(call, name, value)
    call.scope.variables[name] = value


def _note_attributes(call: ProgramCall, name: str) -> None:
    if _has_attribute(call, "A"):
        call.scope.associative.add(name)
    if _has_attribute(call, "i"):
        call.scope.integers.add(name)


def _has_attribute(call: ProgramCall, letter: str) -> bool:
    return any(word.startswith("-") and letter in word for word in call.argv[1:])


def _check_array_text(call: ProgramCall, name: str, value: VariableValue) -> None:
    """`declare -a x="$y"` reads the text of y as `([subscript]=value)`."""
    if not isinstance(value, str) or is_fully_known(value):
        return
    known = call.scope.variables.get(name)
    is_array = isinstance(known, tuple) or known == ANY_WORD or name in call.scope.associative
    if is_array or _has_attribute(call, "a"):
        call.dynamic(f"the elements of {name}, whose subscripts the shell would run as code")


def walk_unset(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    call = walk.call(node, scope)
    call.program = "unset"
    call.argv = ["unset"]
    for child in walk.children(node)[1:]:
        call.argv += walk.fields(child, scope).words
    unset(call)
    walk.keep(call)
    return ""


def unset(call: ProgramCall) -> None:
    for word in call.argv[1:]:
        assignments.check_variable_name(call, word)
        call.scope.variables[word] = ""
        call.scope.associative.discard(word)
        if variable_decides_code(word):
            call.dynamic(f"{word} decides what runs, or what is remembered of it")
        if "$(" in word or "`" in word:
            call.dynamic("a subscript that is run")
