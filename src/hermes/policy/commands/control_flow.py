"""Analyses lists, pipelines, loops, conditions and functions."""

import re

from hermes.policy.commands import assignments
from hermes.policy.commands.calls import NodeHandler, ScriptWalk
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import ANY_WORD, ANY_WORDS, SYSTEM_NAME
from hermes.policy.commands.scope import ShellScope
from hermes.policy.commands.syntax import Node, ShellSyntaxError
from hermes.policy.commands.tables import find_program

_IGNORED_TOKENS = {"\n"} | word_set(
    "; ;; ;& ;;& & && || | |& ( ) { } (( )) $( ` if then elif else fi for select in do done while"
    " until case esac function ! comment variable_name = heredoc_end heredoc_start"
)
_MAX_LOOP_ROUNDS = 40
_ENDLESS_LOOP = re.compile(
    rb"(?:while\s+(?:true|:|1|\(\(\s*1\s*\)\)|\[+ 1 \]+)|until\s+false)\s*[;\n]"
)
_WAITING_COMMAND = re.compile(rb"\b(?:sleep|wait|read|inotifywait)\b")


def walk_statements(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """A sequence of statements: a program, a group, the body of a loop."""
    printed = []
    found = walk.children(node)
    for at, child in enumerate(found):
        if child.type in _IGNORED_TOKENS:
            continue
        behind = found[at + 1].type if at + 1 < len(found) else ""
        if behind == "&":
            printed.append(walk.statement(child, _multiplying_scope(scope), stdin))
        else:
            printed.append(walk.statement(child, scope, stdin))
    return "".join(printed)[:4096]


def _multiplying_scope(scope: ShellScope) -> ShellScope:
    inner = scope.copy()
    inner.multiplying = True
    return inner


def walk_subshell(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    return walk_statements(walk, node, scope.copy(), stdin)


def walk_compound(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`{ …; }`, and `((…))`, which has the same node type."""
    if walk.text[node.start_byte : node.start_byte + 2] == b"((":
        walk.arithmetic(node, scope)
        return ""
    return walk_statements(walk, node, scope, stdin)


def walk_pipeline(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """Each stage is a subshell whose input is the output of the stage before."""
    flowing, last = stdin, scope
    for child in walk.children(node):
        if child.type not in _IGNORED_TOKENS:
            last = _multiplying_scope(scope)
            flowing = walk.statement(child, last, flowing)
    scope.merge(last)  # an earlier command may have set `lastpipe`
    return flowing or ""


def walk_chain(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`a && b || c`. What an optional part changed is unknown afterwards."""
    first = node
    while first.type == "list":
        first = walk.children(first)[0]
    outputs = [walk.statement(first, scope, stdin)]
    afterwards = scope.copy()
    _walk_chain_parts(walk, node, scope, stdin, outputs)
    scope.merge(afterwards)
    return "".join(outputs)


def _walk_chain_parts(
    walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None, outputs: list[str]
) -> None:
    if node.type != "list":
        return
    parts = [child for child in walk.children(node) if child.type != "comment"]
    _walk_chain_parts(walk, parts[0], scope, stdin, outputs)
    either = any(child.type == "||" for child in parts)
    before = scope.copy()
    for part in parts[1:]:
        if part.type not in _IGNORED_TOKENS:
            outputs.append(walk.statement(part, scope, stdin))
    if either:
        scope.merge(before)


def walk_negation(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    if walk.text[node.start_byte + 1 : node.start_byte + 2] not in (b" ", b"\t", b"\n", b"("):
        raise ShellSyntaxError("a ! that is part of a word")
    return walk_statements(walk, node, scope, stdin)


def walk_if(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`if` and its branches: each starts from the same state, and any of them may run."""
    start = scope.copy()
    branch = scope
    outputs = []
    for child in walk.children(node):
        if child.type in ("elif_clause", "else_clause", "case_item"):
            branch = start.copy()
            outputs.append(walk_branch(walk, child, branch, stdin))
            scope.merge(branch)
        elif child.type not in _IGNORED_TOKENS:
            outputs.append(walk.statement(child, scope, stdin))
    scope.merge(start)
    return "".join(outputs)


def walk_branch(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    if node.type == "case_item":
        return _walk_case_item(walk, node, scope, stdin)
    return walk_statements(walk, node, scope, stdin)


def _walk_case_item(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    printed, behind = [], False
    for child in walk.children(node):
        if child.type == ")":
            behind = True
        elif child.type in _IGNORED_TOKENS:
            continue
        elif behind:
            printed.append(walk.statement(child, scope, stdin))
        elif child.type == "arithmetic_expansion":
            walk.arithmetic(child, scope)
        else:
            walk.substitutions(child, scope)
    return "".join(printed)


def walk_case(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    start = scope.copy()
    outputs = []
    for child in walk.children(node):
        if child.type == "case_item":
            branch = start.copy()
            outputs.append(_walk_case_item(walk, child, branch, stdin))
            scope.merge(branch)
        elif child.type not in _IGNORED_TOKENS:
            text = walk.text[child.start_byte : child.end_byte].decode("utf-8", "replace")
            assignments.note_content_test(text, walk.fields(child, scope).words, scope)
    return "".join(outputs)


def walk_while(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`while` and `until`: the second iteration starts with the changes of the first."""
    _check_endless(walk, node, scope)
    start = scope.copy()
    printed = walk_statements(walk, node, scope, stdin)
    if scope.variables != start.variables or scope.cwd != start.cwd:
        scope.merge(start)
        walk_statements(walk, node, scope.copy(), stdin)
    return printed


def _check_endless(walk: ScriptWalk, node: Node, scope: ShellScope) -> None:
    text = walk.text[node.start_byte : node.end_byte]
    endless = _ENDLESS_LOOP.match(text) or text.startswith(
        (b"for((;;))", b"for ((;;))", b"for (( ; ; ))")
    )
    if endless and re.search(rb"[^&>|]&(?![&>\d])", text) and not _WAITING_COMMAND.search(text):
        call = walk.call(node, scope)
        call.mark("fork-bomb", "an endless loop starts processes without waiting")
        call.irreversible("an endless loop starts processes without waiting")
        walk.keep(call)


def walk_for(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`for x in …`: once for each known word."""
    name, values, bodies = "", [], []
    for child in walk.children(node):
        if child.type == "variable_name":
            name = walk.text[child.start_byte : child.end_byte].decode()
        elif child.type == "do_group":
            bodies.append(child)
        elif child.type not in _IGNORED_TOKENS:
            fields = walk.fields(child, scope)
            values += [*fields.words, ANY_WORD] if fields.doubtful else fields.words
    if not any(child.type == "in" for child in node.children):
        values = [ANY_WORD]
    printed = []
    start = scope.copy()
    loop = walk.call(node, scope)
    for value in _limited_values(values):
        assignments.check_assignment(loop, name, value)
        scope.variables[name] = value
        printed += [walk.statement(body, scope, stdin) for body in bodies]
    walk.keep(loop)
    start.variables[name] = scope.variables.get(name, ANY_WORD)
    scope.merge(start)
    return "".join(printed)[:4096]


def _limited_values(values: list[str]) -> list[str]:
    """The values to iterate over, or one placeholder for all of them."""
    if all(value.isdigit() for value in values) and len(values) > 3:
        return [SYSTEM_NAME]
    if len(values) > _MAX_LOOP_ROUNDS:
        return [ANY_WORD]
    kept = [ANY_WORD if value == ANY_WORDS else value for value in values]
    return list(dict.fromkeys(kept))


def walk_counted_for(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`for ((i=0; …))`."""
    _check_endless(walk, node, scope)
    printed = []
    for child in walk.children(node):
        if child.type == "variable_assignment" and child.children:
            first = child.children[0]
            walk.arithmetic(child, scope)
            scope.variables[walk.text[first.start_byte : first.end_byte].decode()] = SYSTEM_NAME
        elif child.type in ("do_group", "compound_statement"):
            printed.append(walk.statement(child, scope, stdin))
        elif child.type not in _IGNORED_TOKENS:
            walk.arithmetic(child, scope)
    return "".join(printed)


def define_function(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """A function: analysed at each call, and once at its definition."""
    found = walk.children(node)
    word = next(child for child in found if child.type in ("word", "concatenation"))
    name = walk.text[word.start_byte : word.end_byte].decode("utf-8", "replace")
    bodies = found[found.index(word) + 1 :]

    def enter(inner: ShellScope, piped: str | None) -> str:
        kept = [
            body for body in bodies if body.type not in _IGNORED_TOKENS and body.type != "function"
        ]
        return "".join(walk.statement(body, inner, piped) for body in kept)

    scope.functions[name] = enter
    scope.uncertain_functions -= {name}
    call = walk.call(node, scope)
    call.argv, call.program = [name], name
    if find_program(name) is not None:
        call.dynamic(f"a function takes the name of {name}")
        walk.keep(call)
    inside = scope.copy()
    inside.calls = (*scope.calls, name)
    inside.arguments = None
    enter(inside, ANY_WORD)
    return ""


def skip_node(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    return ""


CONTROL_FLOW_HANDLERS: dict[str, NodeHandler] = {
    "program": walk_statements,
    "list": walk_chain,
    "pipeline": walk_pipeline,
    "subshell": walk_subshell,
    "compound_statement": walk_compound,
    "do_group": walk_statements,
    "if_statement": walk_if,
    "while_statement": walk_while,
    "for_statement": walk_for,
    "c_style_for_statement": walk_counted_for,
    "case_statement": walk_case,
    "negated_command": walk_negation,
    "function_definition": define_function,
    "comment": skip_node,
}
