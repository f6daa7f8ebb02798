"""Lists, pipelines, loops, conditions and functions: which commands run, in which state."""

import re

from hermes.policy.commands import assignments
from hermes.policy.commands.marks import ANY, LOOSE, NAME
from hermes.policy.commands.scope import Scope
from hermes.policy.commands.syntax import Misread, Node
from hermes.policy.commands.tables import program
from hermes.policy.commands.values import word_set
from hermes.policy.commands.walking import Step, Walk

_NOISE = {"\n"} | word_set(
    "; ;; ;& ;;& & && || | |& ( ) { } (( )) $( ` if then elif else fi for select in do done while"
    " until case esac function ! comment variable_name = heredoc_end heredoc_start"
)
_ROUNDS = 40
_ENDLESS = re.compile(rb"(?:while\s+(?:true|:|1|\(\(\s*1\s*\)\)|\[+ 1 \]+)|until\s+false)\s*[;\n]")
_RESTS = re.compile(rb"\b(?:sleep|wait|read|inotifywait)\b")


def statements(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """One after the other: a program, a group, the body of a loop."""
    printed = []
    found = walk.children(node)
    for at, child in enumerate(found):
        if child.type in _NOISE:
            continue
        behind = found[at + 1].type if at + 1 < len(found) else ""
        if behind == "&":
            printed.append(walk.statement(child, _multiplied(scope), stdin))
        else:
            printed.append(walk.statement(child, scope, stdin))
    return "".join(printed)[:4096]


def _multiplied(scope: Scope) -> Scope:
    inner = scope.copy()
    inner.multiplying = True
    return inner


def subshell(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    return statements(walk, node, scope.copy(), stdin)


def compound(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`{ …; }`, and `((…))`, which looks the same to the parser."""
    if walk.text[node.start_byte : node.start_byte + 2] == b"((":
        walk.arithmetic(node, scope)
        return ""
    return statements(walk, node, scope, stdin)


def pipeline(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """Each stage is a shell of its own, fed by the one before."""
    flowing = stdin
    for child in walk.children(node):
        if child.type not in _NOISE:
            flowing = walk.statement(child, _multiplied(scope), flowing)
    return flowing or ""


def chain(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`a && b || c`. What a part that may not run has changed is unknown afterwards."""
    first = node
    while first.type == "list":
        first = walk.children(first)[0]
    outputs = [walk.statement(first, scope, stdin)]
    afterwards = scope.copy()
    _links(walk, node, scope, stdin, outputs)
    scope.merge(afterwards)
    return "".join(outputs)


def _links(walk: Walk, node: Node, scope: Scope, stdin: str | None, outputs: list[str]) -> None:
    if node.type != "list":
        return
    parts = [child for child in walk.children(node) if child.type != "comment"]
    _links(walk, parts[0], scope, stdin, outputs)
    either = any(child.type == "||" for child in parts)
    before = scope.copy()
    for part in parts[1:]:
        if part.type not in _NOISE:
            outputs.append(walk.statement(part, scope, stdin))
    if either:
        scope.merge(before)


def negated(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    if walk.text[node.start_byte + 1 : node.start_byte + 2] not in (b" ", b"\t", b"\n", b"("):
        raise Misread("a ! that is part of a word")
    return statements(walk, node, scope, stdin)


def condition(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`if` and its branches: each starts from the same state, any of them may have run."""
    start = scope.copy()
    branch = scope
    outputs = []
    for child in walk.children(node):
        if child.type in ("elif_clause", "else_clause", "case_item"):
            branch = start.copy()
            outputs.append(statements_of_branch(walk, child, branch, stdin))
            scope.merge(branch)
        elif child.type not in _NOISE:
            outputs.append(walk.statement(child, scope, stdin))
    scope.merge(start)
    return "".join(outputs)


def statements_of_branch(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    if node.type == "case_item":
        return _case_item(walk, node, scope, stdin)
    return statements(walk, node, scope, stdin)


def _case_item(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    printed, behind = [], False
    for child in walk.children(node):
        if child.type == ")":
            behind = True
        elif child.type in _NOISE:
            continue
        elif behind:
            printed.append(walk.statement(child, scope, stdin))
        else:
            walk.substitutions(child, scope)
    return "".join(printed)


def case(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    start = scope.copy()
    outputs = []
    for child in walk.children(node):
        if child.type == "case_item":
            branch = start.copy()
            outputs.append(_case_item(walk, child, branch, stdin))
            scope.merge(branch)
        elif child.type not in _NOISE:
            walk.fields(child, scope)
    return "".join(outputs)


def repeat(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`while` and `until`: the second round sees what the first has changed."""
    _check_endless(walk, node, scope)
    start = scope.copy()
    printed = statements(walk, node, scope, stdin)
    if scope.variables != start.variables or scope.cwd != start.cwd:
        scope.merge(start)
        statements(walk, node, scope.copy(), stdin)
    return printed


def _check_endless(walk: Walk, node: Node, scope: Scope) -> None:
    text = walk.text[node.start_byte : node.end_byte]
    endless = _ENDLESS.match(text) or text.startswith(
        (b"for((;;))", b"for ((;;))", b"for (( ; ; ))")
    )
    if endless and re.search(rb"[^&>|]&(?![&>\d])", text) and not _RESTS.search(text):
        call = walk.call(node, scope)
        call.mark("fork-bomb", "an endless loop starts processes without waiting")
        call.irreversible("an endless loop starts processes without waiting")
        walk.keep(call)


def for_each(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`for x in …`: once for each word, as far as they are known."""
    name, values, bodies = "", [], []
    for child in walk.children(node):
        if child.type == "variable_name":
            name = walk.text[child.start_byte : child.end_byte].decode()
        elif child.type == "do_group":
            bodies.append(child)
        elif child.type not in _NOISE:
            values += walk.fields(child, scope).words
    if not any(child.type == "in" for child in node.children):
        values = [ANY]
    printed = []
    start = scope.copy()
    loop = walk.call(node, scope)
    for value in _few(values):
        assignments.check(loop, name, value)
        scope.variables[name] = value
        printed += [walk.statement(body, scope, stdin) for body in bodies]
    walk.keep(loop)
    start.variables[name] = scope.variables.get(name, ANY)
    scope.merge(start)
    return "".join(printed)[:4096]


def _few(values: list[str]) -> list[str]:
    """The values to go through, or one that stands for all of them."""
    if all(value.isdigit() for value in values) and len(values) > 3:
        return [NAME]
    if len(values) > _ROUNDS:
        return [ANY]
    kept = [ANY if value == LOOSE else value for value in values]
    return list(dict.fromkeys(kept))


def counted(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """`for ((i=0; …))`."""
    _check_endless(walk, node, scope)
    printed = []
    for child in walk.children(node):
        if child.type == "variable_assignment" and child.children:
            first = child.children[0]
            walk.arithmetic(child, scope)
            scope.variables[walk.text[first.start_byte : first.end_byte].decode()] = NAME
        elif child.type in ("do_group", "compound_statement"):
            printed.append(walk.statement(child, scope, stdin))
        elif child.type not in _NOISE:
            walk.arithmetic(child, scope)
    return "".join(printed)


def define(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    """A function: kept for its calls, and looked into at once for what no call shows."""
    found = walk.children(node)
    word = next(child for child in found if child.type in ("word", "concatenation"))
    name = walk.text[word.start_byte : word.end_byte].decode("utf-8", "replace")
    bodies = found[found.index(word) + 1 :]

    def enter(inner: Scope, piped: str | None) -> str:
        kept = [body for body in bodies if body.type not in _NOISE and body.type != "function"]
        return "".join(walk.statement(body, inner, piped) for body in kept)

    scope.functions[name] = enter
    scope.wavering -= {name}
    call = walk.call(node, scope)
    call.argv, call.program = [name], name
    if program(name) is not None:
        call.dynamic(f"a function takes the name of {name}")
        walk.keep(call)
    inside = scope.copy()
    inside.calls = (*scope.calls, name)
    inside.arguments = None
    enter(inside, ANY)
    return ""


def skip(walk: Walk, node: Node, scope: Scope, stdin: str | None) -> str:
    return ""


STEPS: dict[str, Step] = {
    "program": statements,
    "list": chain,
    "pipeline": pipeline,
    "subshell": subshell,
    "compound_statement": compound,
    "do_group": statements,
    "if_statement": condition,
    "while_statement": repeat,
    "for_statement": for_each,
    "c_style_for_statement": counted,
    "case_statement": case,
    "negated_command": negated,
    "function_definition": define,
    "comment": skip,
}
