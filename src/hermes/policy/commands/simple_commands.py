"""Analyses simple commands with their assignments, redirections and here-documents."""

import re
from dataclasses import dataclass, field, replace

from hermes.policy.commands import assignments, declarations, paths
from hermes.policy.commands.assignments import (
    evaluated_test_word,
    note_content_test,
    unknown_in_test,
)
from hermes.policy.commands.calls import NodeHandler, ProgramCall, ScriptWalk, TooManyCommands
from hermes.policy.commands.effects import word_set
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    display_text,
    literal_text,
)
from hermes.policy.commands.scope import ShellScope, VariableValue
from hermes.policy.commands.syntax import Node, ShellSyntaxError
from hermes.policy.commands.tables import variable_decides_code

REDIRECT_NODE_KINDS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WRITING_OPERATORS = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})


@dataclass
class OpenedFiles:
    """The files that the redirections of one statement open."""

    written: list[tuple[str, str]] = field(default_factory=list)
    """Operator and word of each file opened for writing."""
    read: list[str] = field(default_factory=list)
    stdin: str | None = None
    silent: bool = False
    """True when no output goes to a pipe."""
    rerouted: bool = False
    """Whether output goes to a descriptor other than standard output and standard error."""
    words: list[str] = field(default_factory=list)
    """Further arguments of the command, which the parser attaches to a redirection."""
    following: list[Node] = field(default_factory=list)
    """Statements between a here-document's delimiter and its text."""


def collect_redirects(walk: ScriptWalk, nodes: list[Node], scope: ShellScope) -> OpenedFiles:
    opened = OpenedFiles()
    for node in nodes:
        _check_descriptor_variable(walk.text[: node.start_byte])
        if node.type == "file_redirect":
            _collect_file(walk, node, scope, opened)
        elif node.type == "herestring_redirect":
            words = [
                child
                for child in walk.children(node)
                if child.type not in ("<<<", "file_descriptor")
            ]
            opened.stdin = "".join(walk.value(child, scope) for child in words) + "\n"
        else:
            _collect_here_document(walk, node, scope, opened)
    return opened


_DESCRIPTOR_VARIABLE = re.compile(rb"\{([A-Za-z_]\w*)(\[[^\n]*\])?\}\Z")


def _check_descriptor_variable(before: bytes) -> None:
    """`{name[subscript]}<file`: the shell evaluates the subscript and sets the variable."""
    found = _DESCRIPTOR_VARIABLE.search(before)
    if found and (found[2] or variable_decides_code(found[1].decode())):
        raise ShellSyntaxError("a redirection that sets a variable by an evaluated name")


def _collect_file(walk: ScriptWalk, node: Node, scope: ShellScope, opened: OpenedFiles) -> None:
    descriptor, operator = "", ""
    words: list[str] = []
    for child in walk.children(node):
        if child.type == "file_descriptor":
            descriptor = walk.text[child.start_byte : child.end_byte].decode()
        elif not operator:
            operator = child.type
        else:
            words += _destination_words(walk.fields(child, scope).words)
    if operator in (">&-", "<&-"):
        opened.words += words
        return
    destination = words[0] if words else ANY_WORD
    opened.words += words[1:]
    if operator in (">&", "<&") and (destination.isdigit() or destination == "-"):
        if operator == "<&" and descriptor in ("", "0") and destination not in ("0", "-"):
            opened.stdin = ANY_WORD  # what another statement opened
        opened.rerouted = opened.rerouted or destination not in ("1", "2", "-")
        return
    if operator in _WRITING_OPERATORS:
        opened.written.append((operator, destination))
        opened.silent = opened.silent or descriptor in ("", "1")
    else:
        opened.read.append(destination)
        if descriptor in ("", "0"):
            opened.stdin = "" if destination == "/dev/null" else ANY_WORD


def _destination_words(words: list[str]) -> list[str]:
    """Bash refuses a redirection to several words, so none follow those of one expansion."""
    return [word for at, word in enumerate(words) if not (at and word == ANY_WORDS)]


def _collect_here_document(
    walk: ScriptWalk, node: Node, scope: ShellScope, opened: OpenedFiles
) -> None:
    start, body = "", ""
    nested: list[Node] = []
    for child in walk.children(node):
        if child.type == "heredoc_start":
            start = walk.text[child.start_byte : child.end_byte].decode("utf-8", "replace")
        elif child.type == "heredoc_body":
            quoted = any(mark in start for mark in "'\"\\")
            raw = walk.text[child.start_byte : child.end_byte].decode("utf-8", "surrogateescape")
            body = raw if quoted else walk.body(child, scope)
        elif child.type == "heredoc_end":
            _check_delimiter(start, walk.text[child.start_byte : child.end_byte])
        elif child.type in REDIRECT_NODE_KINDS:
            nested.append(child)
        elif child.type in ("<<", "<<-", "file_descriptor", "&&", "||", "|", "|&"):
            continue
        elif child.type in _STATEMENT_NODE_KINDS:
            opened.following.append(child)
        else:
            opened.words += walk.fields(child, scope).words
    inner = collect_redirects(walk, nested, scope)
    opened.written += inner.written
    opened.read += inner.read
    opened.words += inner.words
    opened.following += inner.following
    opened.silent = opened.silent or inner.silent
    opened.rerouted = opened.rerouted or inner.rerouted
    opened.stdin = body if inner.stdin is None else ANY_WORD


def _check_delimiter(start: str, end: bytes) -> None:
    """Checks that the last line of a here-document is its delimiter without quotes."""
    word = "".join(mark for mark in start if mark not in "'\"\\")
    if end.strip().decode("utf-8", "replace") != word:
        raise ShellSyntaxError("a here-document that ends elsewhere for the parser")


_STATEMENT_NODE_KINDS = word_set(
    "pipeline list command redirected_statement subshell compound_statement if_statement"
    " while_statement for_statement case_statement negated_command test_command"
    " declaration_command variable_assignment variable_assignments function_definition"
)


def apply_redirects(call: ProgramCall, opened: OpenedFiles) -> None:
    """Marks the effects of opening the files."""
    for word in opened.read:
        call.reads(word)
    for operator, word in opened.written:
        path = call.path(word)
        call.writes(word, f"{operator} {display_text(path)}")
        empties = operator != ">>" and operator != "&>>" and call.program in ("", ":", "true")
        if empties and not paths.discards_writes(path):
            call.deletes(word, why=f"{operator} empties {display_text(path)}")


_RECEIVING_PROGRAMS = word_set(": true cat head tail wc read")


def _mark_open_connections(call: ProgramCall, opened: list[OpenedFiles], *, alone: bool) -> None:
    """A connection that a redirection opens for reading can be written to as well, by everything
    that gets its descriptor. Only a test whether a port answers, and a few programs, do not.

    `alone`: the redirections belong to this command, not to a group of commands."""
    connections = [
        path for one in opened for path in map(call.path, one.read) if paths.is_network_path(path)
    ]
    if not connections:
        return
    words = call.argv[2:] if call.argv[:1] == ["timeout"] else call.argv
    receives = alone and (not words or words[0] in _RECEIVING_PROGRAMS)
    written = [call.path(word) for one in opened for _, word in one.written]
    if (
        not receives
        or any(path != "/dev/null" for path in written)
        or any(one.rerouted for one in opened)
    ):
        call.mark("network-out", f"may send to {display_text(connections[0])}")


_MAX_ARGUMENTS = 800


def walk_command(
    walk: ScriptWalk,
    node: Node,
    scope: ShellScope,
    stdin: str | None,
    outer: OpenedFiles | None = None,
) -> str:
    """A program with its words, its assignments and its redirections."""
    call = walk.call(node, scope)
    unknown: list[str] = []
    inner: list[Node] = []
    extra: dict[str, VariableValue] = {}
    inherited: set[str] = set()
    end, values = -1, 0
    for child in walk.children(node):
        kind = child.type
        if kind in REDIRECT_NODE_KINDS:
            inner.append(child)
        elif kind == "variable_assignment" and not call.argv:
            name, value = assignments.read_assignment(walk, child, scope)
            extra[name] = value
            values += 1
            text = walk.text[child.start_byte : child.end_byte].decode("utf-8", "replace")
            if assignments.is_inherited_setting(text, scope):
                inherited.add(name)
        elif kind == "comment":
            continue
        else:
            _check_gap(walk, end, child.start_byte)
            fields = walk.fields(child, scope)
            call.disputed = call.disputed or (fields.doubtful and not call.argv)
            call.doubtful = call.doubtful or fields.doubtful
            unsplit = call.argv[:1] == ["test"] and _is_single_name(walk, child)
            call.argv += map(literal_text, fields.words) if unsplit else fields.words
            if fields.doubtful:
                fields = walk.fields(child, replace(scope, ignores_defaults=True))
            unknown += fields.words
        if len(call.argv) + values > _MAX_ARGUMENTS:
            raise TooManyCommands(f"more than {_MAX_ARGUMENTS} words in one command")
        end = child.end_byte
    opened = collect_redirects(walk, inner, scope)
    call.inherited = frozenset(inherited)
    return _finish_command(walk, call, stdin, [opened, *([outer] if outer else [])], extra, unknown)


def _check_gap(walk: ScriptWalk, end: int, start: int) -> None:
    """Checks for words that the parser separates only at a line continuation: they are one."""
    if end >= 0 and not walk.text[end:start].replace(b"\\\n", b""):
        raise ShellSyntaxError("two words without a space between them")


_FILE_PROGRAMS = word_set(
    "rm rmdir mv cp ln mkdir touch truncate chmod chown chgrp tee mktemp install"
)
"""What they change by a default, the kernel allows at that path only."""


def _finish_command(
    walk: ScriptWalk,
    call: ProgramCall,
    stdin: str | None,
    opened: list[OpenedFiles],
    extra: dict[str, VariableValue],
    unknown: list[str],
) -> str:
    """`unknown`: its words where each variable with a default has an unknown value instead."""
    call.stdin = stdin
    for one in opened:
        call.argv += one.words
        unknown += one.words
        call.stdin = one.stdin if one.stdin is not None else call.stdin
    for name, value in extra.items():
        assignments.check_assignment(call, name, value)
        if call.argv and name not in call.inherited:
            assignments.check_exported_variable(call, name, value)
    if call.argv:
        call.program = call.argv[0]
    for one in opened:
        apply_redirects(call, one)
    _mark_open_connections(call, opened, alone=True)
    if not call.argv:
        call.scope.variables.update(extra)
        walk.keep(call)
        return ""
    other = _with_words(call, unknown) if call.doubtful else None
    printed = walk.run(call)
    if other and call.program not in _FILE_PROGRAMS:
        if walk.run(other) != printed:
            printed = ANY_WORD
        call.scope.merge(other.scope)
    return "" if any(one.silent for one in opened) else printed


def _with_words(call: ProgramCall, words: list[str]) -> ProgramCall:
    """The same call in a shell of its own, with other words."""
    return replace(
        call,
        argv=words,
        program=words[0] if words else "",
        scope=call.scope.copy(),
        effects=dict(call.effects),
        paths=list(call.paths),
        contents=list(call.contents),
        changes=list(call.changes),
        repositories=list(call.repositories),
    )


def walk_redirected(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """A statement with redirections after it."""
    found = walk.children(node)
    opened = collect_redirects(
        walk, [one for one in found if one.type in REDIRECT_NODE_KINDS], scope
    )
    bodies = [one for one in found if one.type not in REDIRECT_NODE_KINDS and one.type != "comment"]
    printed = ""
    if len(bodies) == 1 and bodies[0].type == "command":
        printed = walk_command(walk, bodies[0], scope, stdin, opened)
    else:
        call = walk.call(node, scope)
        inside = opened.stdin if opened.stdin is not None else stdin
        if opened.words:
            raise ShellSyntaxError("words behind a redirection that belong to no command")
        for body in bodies:
            printed += walk.statement(body, scope, inside)
        # The parser attaches the redirection of `a && b > f` to the whole list: b runs after a.
        apply_redirects(call, opened)
        _mark_open_connections(call, [opened], alone=not bodies)
        walk.keep(call)
        printed = "" if opened.silent else printed
    for following in opened.following:
        printed = walk.statement(following, scope, printed)
    return printed


def walk_assignment(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`a=1`, alone or several."""
    single = node.type == "variable_assignment"
    call = walk.call(node, scope)
    found = [node] if single else walk.children(node)
    if len(found) > _MAX_ARGUMENTS // 2:
        raise TooManyCommands(f"more than {_MAX_ARGUMENTS // 2} assignments at once")
    for child in found:
        name, value = assignments.read_assignment(walk, child, scope)
        assignments.check_assignment(call, name, value)
        scope.variables[name] = value
    walk.keep(call)
    return ""


def walk_test(walk: ScriptWalk, node: Node, scope: ShellScope, stdin: str | None) -> str:
    """`[ … ]` and `[[ … ]]`: only substitutions and evaluated names have effects."""
    call = walk.call(node, scope)
    text = walk.text[node.start_byte : node.end_byte].decode("utf-8", "replace")
    call.program = "["
    call.argv = ["[", text[:200]]
    if text.startswith("[["):
        outputs = walk.substitutions(node, scope)
        note_content_test(text, outputs, scope)
        if unknown := unknown_in_test(text, scope, outputs):
            call.dynamic(f"a comparison of {unknown}, which the shell would run as code")
    elif text.startswith("(("):
        walk.substitutions(node, scope)
        walk.arithmetic(node, scope)
    else:
        words = _test_words(walk, node, scope)
        note_content_test(text, words, scope)
        if unknown := evaluated_test_word(words, scope):
            call.dynamic(f"a test of {unknown}, which the shell would run as code")
    if "'" in text and ("[$(" in text or "[`" in text):
        call.dynamic("a subscript that is run")
    walk.keep(call)
    return ""


_QUOTED_NODE_KINDS = frozenset({"string", "raw_string"})
"""A name of a file in quotes is one word; outside it is split at its blanks."""
_EXPRESSION_NODE_KINDS = word_set(
    "test_command unary_expression binary_expression parenthesized_expression"
)


def _is_single_name(walk: ScriptWalk, node: Node) -> bool:
    """Return whether a wildcard in this word of a test finds no words that could be `-v` or
    split."""
    if node.type == "concatenation":
        return all(_is_single_name(walk, child) for child in node.children)
    text = walk.text[node.start_byte : node.end_byte]
    direct = b"$" not in text and b"`" not in text
    return node.type in _QUOTED_NODE_KINDS or (direct and text[:1] not in b"*?[{")


def _test_words(walk: ScriptWalk, node: Node, scope: ShellScope) -> list[str]:
    """The words between `[` and `]`."""
    words: list[str] = []
    for child in node.children:
        if child.type in _EXPRESSION_NODE_KINDS:
            words += _test_words(walk, child, scope)
        elif child.is_named and child.type != "test_operator":
            found = walk.fields(child, scope).words
            words += map(literal_text, found) if _is_single_name(walk, child) else found
        elif child.type not in ("[", "]"):
            words.append(walk.text[child.start_byte : child.end_byte].decode("utf-8", "replace"))
    return words


SIMPLE_COMMAND_HANDLERS: dict[str, NodeHandler] = {
    "command": walk_command,
    "redirected_statement": walk_redirected,
    "variable_assignment": walk_assignment,
    "variable_assignments": walk_assignment,
    "declaration_command": declarations.walk_declaration,
    "unset_command": declarations.walk_unset,
    "test_command": walk_test,
}
