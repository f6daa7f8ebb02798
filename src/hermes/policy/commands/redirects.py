"""Redirections: files opened for a command, here-documents, and words left behind by the parser."""

from dataclasses import dataclass, field

from hermes.policy.commands import paths
from hermes.policy.commands.calls import Call
from hermes.policy.commands.marks import ANY, shown
from hermes.policy.commands.scope import Scope
from hermes.policy.commands.syntax import Misread, Node
from hermes.policy.commands.values import word_set
from hermes.policy.commands.walking import Walk

KINDS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})


@dataclass
class Opened:
    """What the redirections of one statement open."""

    written: list[tuple[str, str]] = field(default_factory=list)
    """Operator and word of each file opened for writing."""
    read: list[str] = field(default_factory=list)
    stdin: str | None = None
    silent: bool = False
    """True when nothing of the output goes on to a pipe."""
    words: list[str] = field(default_factory=list)
    """Further arguments of the command, which the parser attaches to a redirection."""
    following: list[Node] = field(default_factory=list)
    """Statements that stand between a here-document's mark and its text."""


def collect(walk: Walk, nodes: list[Node], scope: Scope) -> Opened:
    opened = Opened()
    for node in nodes:
        if node.type == "file_redirect":
            _file(walk, node, scope, opened)
        elif node.type == "herestring_redirect":
            words = [
                child
                for child in walk.children(node)
                if child.type not in ("<<<", "file_descriptor")
            ]
            opened.stdin = "".join(walk.value(child, scope) for child in words) + "\n"
        else:
            _document(walk, node, scope, opened)
    return opened


def _file(walk: Walk, node: Node, scope: Scope, opened: Opened) -> None:
    descriptor, operator = "", ""
    words: list[str] = []
    for child in walk.children(node):
        if child.type == "file_descriptor":
            descriptor = walk.text[child.start_byte : child.end_byte].decode()
        elif not operator:
            operator = child.type
        else:
            words += walk.fields(child, scope).words
    if operator in (">&-", "<&-"):
        opened.words += words
        return
    destination = words[0] if words else ANY
    opened.words += words[1:]
    if operator in (">&", "<&") and (destination.isdigit() or destination == "-"):
        return
    if operator in _WRITING:
        opened.written.append((operator, destination))
        opened.silent = opened.silent or descriptor in ("", "1")
    else:
        opened.read.append(destination)
        if descriptor in ("", "0"):
            opened.stdin = "" if destination == "/dev/null" else ANY


def _document(walk: Walk, node: Node, scope: Scope, opened: Opened) -> None:
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
            _check_end(start, walk.text[child.start_byte : child.end_byte])
        elif child.type in KINDS:
            nested.append(child)
        elif child.type in ("<<", "<<-", "file_descriptor", "&&", "||", "|", "|&"):
            continue
        elif child.type in _STATEMENTS:
            opened.following.append(child)
        else:
            opened.words += walk.fields(child, scope).words
    inner = collect(walk, nested, scope)
    opened.written += inner.written
    opened.read += inner.read
    opened.words += inner.words
    opened.following += inner.following
    opened.silent = opened.silent or inner.silent
    opened.stdin = body if inner.stdin is None else ANY


def _check_end(start: str, end: bytes) -> None:
    """The line that ends a here-document is its first word without the quotes."""
    word = "".join(mark for mark in start if mark not in "'\"\\")
    if end.strip().decode("utf-8", "replace") != word:
        raise Misread("a here-document that ends elsewhere for the parser")


_STATEMENTS = word_set(
    "pipeline list command redirected_statement subshell compound_statement if_statement"
    " while_statement for_statement case_statement negated_command test_command"
    " declaration_command variable_assignment variable_assignments function_definition"
)


def apply(call: Call, opened: Opened) -> None:
    """Mark what opening the files does."""
    for word in opened.read:
        call.reads(word)
    for operator, word in opened.written:
        path = call.path(word)
        call.writes(word, f"{operator} {shown(path)}")
        empties = operator != ">>" and operator != "&>>" and call.program in ("", ":", "true")
        if empties and not paths.nowhere(path):
            call.deletes(word, why=f"{operator} empties {shown(path)}")
