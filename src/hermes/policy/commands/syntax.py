"""Parses shell text, and refuses text that people and the shell would read differently."""

import re
import unicodedata
from collections.abc import Iterator
from functools import cache

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

MAX_COMMAND_BYTES = 20_000
"""Longer commands are not analysed, and need approval."""

_CONTROL_CHARACTER = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_MISLEADING_CHARACTER = re.compile(
    "[\u00a0\u00ad\u034f\u061c\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180e\u2000-\u200f"
    "\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ufe00-\ufe0e\ufeff\uff01-\uff5e\uffa0\uffe0-\uffef\ufff0-\uffff"
    "\ue000-\uf8ff\U000e0000-\U000e0fff]"
)
_MAX_TOKEN_COUNTS = {
    "<<": 24, "${": 120, "[[": 60, "|": 200, "((": 200, "`": 200, ">": 300, "(": 300, ")": 300,
    "<": 120, "$": 600, "for ": 100, "function ": 100, "case ": 40, "{": 400, "}": 400,
}  # fmt: skip
"""Tokens that make the parser slow in large numbers, and their normal maximum."""


def find_misleading_characters(command: str) -> list[str]:
    """Reasons not to trust what the text looks like."""
    found = []
    if control := _CONTROL_CHARACTER.search(command):
        found.append(f"a control character (U+{ord(control.group()):04X}) in the text")
    if command.isascii():
        return found
    if odd := _MISLEADING_CHARACTER.search(command):
        name = unicodedata.name(odd.group(), "private use")
        found.append(f"a character made to deceive (U+{ord(odd.group()):04X} {name.lower()})")
    if any("\ud800" <= letter <= "\udfff" for letter in command):
        found.append("bytes that are not UTF-8")
    return found


def find_parse_obstacle(command: str) -> str:
    """Return why it cannot be parsed, or an empty string."""
    if len(command) > MAX_COMMAND_BYTES:
        return f"longer than {MAX_COMMAND_BYTES} characters"
    if "\0" in command:
        return "a NUL character"
    for mark, normal in _MAX_TOKEN_COUNTS.items():
        if command.count(mark) > normal:
            return f"more than {normal} times {mark!r}"
    return ""


def has_placeholders(command: str) -> bool:
    """Return whether it contains characters that are used as placeholders."""
    return not command.isascii() and any("\ue000" <= letter <= "\uf8ff" for letter in command)


__all__ = [
    "Node",
    "ShellSyntaxError",
    "children",
    "descendants",
    "find_hidden_substitution",
    "is_blank",
    "parse",
]

_SINGLE_READ_BYTES = 800
_READ_CHUNK_BYTES = 32
_MAX_READS_PER_BYTE = 16
"""How often the parser may read each byte; real scripts need up to three times."""
_ONE_BYTE = bytes(range(128)) + b"x" * 128
_BLANK = re.compile(rb"(?:[ \t\n]|\\\n)*\Z")


def is_blank(text: bytes) -> bool:
    return _BLANK.match(text) is not None


class ShellSyntaxError(Exception):
    """The syntax tree and the text do not match: the effects are unknown."""


@cache
def _load_language() -> Language:
    return Language(tree_sitter_bash.language())


def parse(text: bytes) -> Node:
    """The syntax tree of a text. Raises `ShellSyntaxError` when parsing takes too long.

    Parsing nonsense takes a hundred times longer than shell text, because the parser reads the
    same bytes again and again. So a long text is passed in small chunks that are counted: the
    result does not depend on the speed of the machine.
    """
    # The binding crashes when a character is cut in two. The grammar treats all letters alike, so
    # each byte of a longer letter is replaced by a one-byte letter.
    letters = text if text.isascii() else text.translate(_ONE_BYTE)
    if len(letters) <= _SINGLE_READ_BYTES:
        return Parser(_load_language()).parse(letters).root_node
    pieces, limit = 0, 100 + len(letters) * _MAX_READS_PER_BYTE // _READ_CHUNK_BYTES

    def piece(start: int, _: object) -> bytes:
        nonlocal pieces
        pieces += 1
        return letters[start : start + _READ_CHUNK_BYTES] if pieces <= limit else b""

    root = Parser(_load_language()).parse(piece).root_node
    if pieces > limit:
        raise ShellSyntaxError("the parser could not make sense of it")
    return root


def children(node: Node, text: bytes) -> list[Node]:
    """Children of a structural node. Checks that text skipped by the parser is blank."""
    found = node.children
    at = node.start_byte
    for child in found:
        start = child.start_byte
        if start > at and not _BLANK.match(text[at:start]):
            raise ShellSyntaxError(f"the parser skipped {text[at:start][:40]!r}")
        at = child.end_byte
        if not child.is_named and text[start:at].strip() != child.type.strip().encode():
            raise ShellSyntaxError(f"the parser took {text[start:at][:40]!r} for {child.type}")
    if node.end_byte > at and not _BLANK.match(text[at : node.end_byte]):
        raise ShellSyntaxError(f"the parser skipped {text[at : node.end_byte][:40]!r}")
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


_HIDDEN_SUBSTITUTION = re.compile(rb"(?<!\\)(?:\\\\)*(?:`|[$<>]\(|\$\[|\$\{[ \t\n|])")
_DIVIDED_EXPANSION = re.compile(rb"[$<>](?:\\\n)+[({\[]|\$(?:\\\n)+[\w@*#?!-]")
_SUBSTITUTION_NODES = frozenset({"command_substitution", "process_substitution"})
_OPENING_NODES = _SUBSTITUTION_NODES | {"arithmetic_expansion"}
_PLAIN_TEXT_NODES = frozenset({"comment", "heredoc_body", "heredoc_content", "heredoc_start"})
_QUOTED_NODES = frozenset({"raw_string", "ansi_c_string"})


def find_hidden_substitution(root: Node, text: bytes) -> str:
    """A token that the shell expands and the parser takes for text: `${x#$(CMD)}`.

    The parser does not look into patterns and defaults of an expansion. All text counts but that
    of the few nodes in which the shell expands nothing, and the signs with which a substitution
    begins. Quotes protect text only outside of an expansion: inside `"${x:-'…'}"` single quotes are
    ordinary characters.
    """
    if divided := _DIVIDED_EXPANSION.search(text):
        return divided.group().decode("utf-8", "replace")
    if not _HIDDEN_SUBSTITUTION.search(text):
        return ""
    for piece in _expanded_texts(root, text):
        if _HIDDEN_SUBSTITUTION.search(piece):
            return piece[:40].decode("utf-8", "replace")
    return ""


def _expanded_texts(root: Node, text: bytes) -> Iterator[bytes]:
    """All text in the tree in which the shell would expand a substitution."""
    waiting = [(root, "", False)]
    while waiting:
        node, parent, in_expansion = waiting.pop()
        kind = node.type
        if kind in _QUOTED_NODES and not in_expansion:
            continue
        if not node.is_named and parent in _OPENING_NODES:
            continue
        within = kind not in _SUBSTITUTION_NODES and (in_expansion or kind == "expansion")
        at = node.start_byte
        for child in node.children:
            if kind not in _PLAIN_TEXT_NODES:
                yield text[at : child.start_byte]
            at = child.end_byte
            waiting.append((child, kind, within))
        if kind not in _PLAIN_TEXT_NODES:
            yield text[at : node.end_byte]
