"""The one place that knows tree-sitter: bytes in, a syntax tree out, no gaps tolerated."""

import re
from collections.abc import Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

__all__ = ["Misread", "Node", "blank", "children", "descendants", "parse"]

_SHORT = 800
_PIECE = 32
_EFFORT = 16
"""How often the parser may read each byte; for real scripts it is up to three times."""
_ONE_BYTE = bytes(range(128)) + b"x" * 128
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*\Z")


def blank(text: bytes) -> bool:
    return _BLANK.match(text) is not None


class Misread(Exception):
    """The tree and the text disagree. What the command does is not known."""


@cache
def _language() -> Language:
    return Language(tree_sitter_bash.language())


def parse(text: bytes) -> Node:
    """The tree of a text, or `Misread` when the parser loses its way in it.

    Making sense of nonsense takes it a hundred times longer than reading shell, and then it comes
    back to the same bytes again and again. A long text is therefore handed out in small pieces
    that are counted: the same text always ends the same way, whatever the clock says.
    """
    # The binding crashes when a character is cut in two, and letters of any alphabet are the same
    # to the grammar: a letter of one byte stands for each byte of theirs.
    letters = text if text.isascii() else text.translate(_ONE_BYTE)
    if len(letters) <= _SHORT:
        return Parser(_language()).parse(letters).root_node
    pieces, limit = 0, 100 + len(letters) * _EFFORT // _PIECE

    def piece(start: int, _: object) -> bytes:
        nonlocal pieces
        pieces += 1
        return letters[start : start + _PIECE] if pieces <= limit else b""

    root = Parser(_language()).parse(piece).root_node
    if pieces > limit:
        raise Misread("the parser could not make sense of it")
    return root


def children(node: Node, text: bytes) -> list[Node]:
    """Children of a structural node. The parser is lenient: what it skipped must be blank."""
    found = node.children
    at = node.start_byte
    for child in found:
        start = child.start_byte
        if start > at and not _BLANK.match(text[at:start]):
            raise Misread(f"the parser skipped {text[at:start][:40]!r}")
        at = child.end_byte
        if not child.is_named and text[start:at].strip() != child.type.strip().encode():
            raise Misread(f"the parser took {text[start:at][:40]!r} for {child.type}")
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
