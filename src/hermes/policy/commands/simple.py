"""Simple commands and the statements that are almost one: tests, declarations, assignments."""

from hermes.policy.commands import assignments, redirects
from hermes.policy.commands.arithmetic import unknown_in_test
from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import ANY
from hermes.policy.commands.redirects import Opened
from hermes.policy.commands.scope import Bound, Scope
from hermes.policy.commands.syntax import Misread, Node
from hermes.policy.commands.tables import decides_code
from hermes.policy.commands.walking import Step, TooMuch, Walk

_WORDS = 800


def command(
    walk: Walk, node: Node, scope: Scope, stdin: str | None, outer: Opened | None = None
) -> str:
    """A program with its words, its assignments and its redirections."""
    call = walk.call(node, scope)
    inner: list[Node] = []
    extra: dict[str, Bound] = {}
    end, values = -1, 0
    for child in walk.children(node):
        kind = child.type
        if kind in redirects.KINDS:
            inner.append(child)
        elif kind == "variable_assignment" and not call.argv:
            name, value = assignments.read(walk, child, scope)
            extra[name] = value
            values += 1
        elif kind == "comment":
            continue
        else:
            _check_gap(walk, end, child.start_byte)
            fields = walk.fields(child, scope)
            call.disputed = call.disputed or (fields.doubtful and not call.argv)
            call.doubtful = call.doubtful or fields.doubtful
            call.argv += fields.words
        if len(call.argv) + values > _WORDS:
            raise TooMuch(f"more than {_WORDS} words in one command")
        end = child.end_byte
    opened = redirects.collect(walk, inner, scope)
    return _finish(walk, call, stdin, [opened, *([outer] if outer else [])], extra)


def _check_gap(walk: Walk, end: int, start: int) -> None:
    """A continued line is no gap: two words of the parser with nothing else between are one."""
    if end >= 0 and not walk.text[end:start].replace(b"\\\n", b""):
        raise Misread("two words without a space between them")


def _finish(
    walk: Walk,
    call: Call,
    stdin: str | None,
    opened: list[Opened],
    extra: dict[str, Bound],
) -> str:
    call.stdin = stdin
    for one in opened:
        call.argv += one.words
        call.stdin = one.stdin if one.stdin is not None else call.stdin
    for name, value in extra.items():
        assignments.check(call, name, value)
        if call.argv:
            assignments.check_exported(call, name, value)
    if call.argv:
        call.program = call.argv[0]
    for one in opened:
        redirects.apply(call, one)
    if not call.argv:
        call.scope.variables.update(extra)
        walk.keep(call)
        return ""
    printed = walk.run(call)
    return "" if any(one.silent for one in opened) else printed


def redirected(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """A statement with redirections behind it."""
    found = walk.children(node)
    opened = redirects.collect(walk, [one for one in found if one.type in redirects.KINDS], scope)
    bodies = [one for one in found if one.type not in redirects.KINDS and one.type != "comment"]
    printed = ""
    if len(bodies) == 1 and bodies[0].type == "command":
        printed = command(walk, bodies[0], scope, stdin, opened)
    else:
        call = walk.call(node, scope)
        inside = opened.stdin if opened.stdin is not None else stdin
        if opened.words:
            raise Misread("words behind a redirection that belong to no command")
        for body in bodies:
            printed += walk.statement(body, scope, inside)
        # The parser hangs the redirection of `a && b > f` on the whole list: b runs after a.
        redirects.apply(call, opened)
        walk.keep(call)
        printed = "" if opened.silent else printed
    for following in opened.following:
        printed = walk.statement(following, scope, printed)
    return printed


def assignment(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`a=1`, alone or several."""
    single = node.type == "variable_assignment"
    call = walk.call(node, scope)
    found = [node] if single else walk.children(node)
    if len(found) > _WORDS // 2:
        raise TooMuch(f"more than {_WORDS // 2} assignments at once")
    for child in found:
        name, value = assignments.read(walk, child, scope)
        assignments.check(call, name, value)
        scope.variables[name] = value
    walk.keep(call)
    return ""


def declaration(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`export`, `declare`, `local`, `readonly`, `typeset`."""
    found = walk.children(node)
    call = walk.call(node, scope)
    call.program = found[0].type
    call.argv = [call.program]
    for child in found[1:]:
        if child.type == "variable_assignment":
            name, value = assignments.read(walk, child, scope)
            assignments.check(call, name, value)
            if call.program == "export" or assignments.exports(call.argv):
                assignments.check_exported(call, name, value)
            _note_kind(call, name)
            scope.variables[name] = value
        else:
            _declared(call, walk.fields(child, scope).words, scope)
    walk.keep(call)
    return ANY


def _note_kind(call: Call, name: str) -> None:
    if any(word.startswith("-") and "A" in word for word in call.argv[1:]):
        call.scope.associative.add(name)


def _declared(call: Call, words: list[str], scope: Scope) -> None:
    for word in words:
        name, equals, value = word.partition("=")
        call.argv.append(word)
        if "$(" in word or "`" in word:
            call.dynamic("a subscript that the shell runs as code")
        assignments.check_name(call, name)
        _note_kind(call, name)
        if equals:
            assignments.check(call, name, value)
            if call.program == "export" or assignments.exports(call.argv):
                assignments.check_exported(call, name, value)
            scope.variables[name] = value
        elif word.startswith("-") and "n" in word and call.program != "export":
            call.dynamic("a variable that stands for another one")
        elif call.program == "export" and (known := scope.variables.get(name)) is not None:
            assignments.check_exported(call, name, known)


def forget(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    call = walk.call(node, scope)
    call.program = "unset"
    call.argv = ["unset"]
    for child in walk.children(node)[1:]:
        words = walk.fields(child, scope).words
        call.argv += words
        for word in words:
            assignments.check_name(call, word)
            scope.variables[word] = ""
            if decides_code(word):
                call.dynamic(f"{word} decides what runs, or what is remembered of it")
            if "$(" in word or "`" in word:
                call.dynamic("a subscript that is run")
    walk.keep(call)
    return ""


def test(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`[ … ]` and `[[ … ]]`: nothing happens but what is substituted."""
    outputs = walk.substitutions(node, scope)
    call = walk.call(node, scope)
    text = walk.text[node.start_byte : node.end_byte].decode("utf-8", "replace")
    call.program = "["
    call.argv = ["[", text[:200]]
    if text.startswith("(("):
        walk.arithmetic(node, scope)
    elif unknown := unknown_in_test(text, scope, outputs):
        call.dynamic(f"a comparison of {unknown}, which the shell would run as code")
    if "'" in text and ("[$(" in text or "[`" in text):
        call.dynamic("a subscript that is run")
    walk.keep(call)
    return ""


STEPS: dict[str, Step] = {
    "command": command,
    "redirected_statement": redirected,
    "variable_assignment": assignment,
    "variable_assignments": assignment,
    "declaration_command": declaration,
    "unset_command": forget,
    "test_command": test,
}
