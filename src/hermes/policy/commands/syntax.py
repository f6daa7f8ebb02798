"""The one place that knows tree-sitter: bytes in, a syntax tree out, no gaps tolerated."""

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

__all__ = ["Misread", "Node", "children", "descendants", "parse"]

_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*\Z")


class Misread(Exception):
    """The tree and the text disagree. What the command does is not known."""


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def parse(text: bytes) -> Node:
    return Parser(_language()).parse(text).root_node


def children(node: Node, text: bytes) -> list[Node]:
    """Children of a structural node. The parser is lenient: what it skipped must be blank."""
    found = node.children
    at = node.start_byte
    for child in found:
        start = child.start_byte
        if start > at and not _BLANK.match(text[at:start]):
            raise Misread(f"the parser skipped {text[at:start][:40]!r}")
        at = child.end_byte
    if node.end_byte > at and not _BLANK.match(text[at : node.end_byte]):
        raise Misread(f"the parser skipped {text[at : node.end_byte][:40]!r}")
    return found


def descendants(node: Node, kinds: frozenset[str]) -> Iterator[Node]:
    """Outermost nodes of these kinds below a node, in the order of the text."""
    waiting = list(reversed(node.children))
    while waiting:
        child = waiting.pop()
        if child.type in kinds:
            yield child
        else:
            waiting.extend(reversed(child.children))
