"""Reads words of the text as bash does: quotes, escapes and expansions.

The parser finds where a word begins and ends; this reader reads the same characters independently.
If the two disagree, `ShellSyntaxError` is raised, because it is unknown what bash would do.
"""

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from hermes.policy.commands import expansions
from hermes.policy.commands.expansions import ParameterExpander, unescape_ansi
from hermes.policy.commands.placeholders import (
    ANY_WORD,
    ANY_WORDS,
    BRACE_CLOSE,
    BRACE_COMMA,
    BRACE_OPEN,
    EMPTY_QUOTE,
    GLOB_QUESTION,
    GLOB_SET,
    GLOB_STAR,
    ONE_OF_SEVERAL,
    SYSTEM_NAME,
    WORD_BREAK,
    has_untrusted_text,
    with_live_globs,
)  # fmt: skip
from hermes.policy.commands.scope import ShellScope, VariableValue
from hermes.policy.commands.syntax import Node, ShellSyntaxError

_PLAIN_RUN = re.compile(r"[^\\'\"$`*?\[{},~<>|&;() \t\n]+")
_QUOTED_RUN = re.compile(r"[^\\\"$`]+")
_PLAIN_WORD = re.compile(r"[\w./:@%+=-]+\Z", re.A)
_VARIABLE = re.compile(r"\$([A-Za-z_]\w*|[0-9@*#?$!_-])", re.A)
_NON_ASCII = re.compile("[\x80-\xff]+")
_LIVE_CHARACTERS = {
    "*": GLOB_STAR,
    "?": GLOB_QUESTION,
    "[": GLOB_SET,
    "{": BRACE_OPEN,
    ",": BRACE_COMMA,
    "}": BRACE_CLOSE,
    "~": "~",
}


class WordFields(NamedTuple):
    """The words that one word expands to, and whether they depend on a variable."""

    words: list[str]
    doubtful: bool


def decode_text(text: str) -> str:
    """Decodes the text, which is kept as latin-1 because offsets are bytes."""
    if text.isascii():
        return text
    return _NON_ASCII.sub(
        lambda found: found.group().encode("latin-1").decode("utf-8", "surrogateescape"), text
    )


def _with_further_words(word: str) -> tuple[str, ...]:
    """`a$x` is split where the value of x has spaces: any words may follow the first."""
    return (word, ANY_WORDS) if ANY_WORDS in word and word != ANY_WORDS else (word,)


class WordReader:
    """Reads words of one text in the state of one shell."""

    def __init__(
        self,
        text: str,
        scope: ShellScope,
        nodes: Mapping[int, Node],
        output: Callable[[Node], str],
    ) -> None:
        self.text = text
        self.scope = scope
        self.nodes = nodes
        self.output = output
        self.parameters = ParameterExpander(scope, self._piece)
        self.out: list[str] = []
        self._splits = True

    def fields(self, start: int, end: int) -> WordFields:
        """An argument: split, brace-expanded, with active globs."""
        if _PLAIN_WORD.match(self.text, start, end):
            return WordFields([self.text[start:end]], False)
        joined = self._read(start, end, self._unquoted)
        words = [
            piece
            for word in (expansions.expand_braces(joined) if BRACE_OPEN in joined else [joined])
            for piece in expansions.restore_literal_braces(word).split(WORD_BREAK)
        ]
        kept = [word for word in words if word.replace(ONE_OF_SEVERAL, "")]
        plain = [word.replace(EMPTY_QUOTE, "").replace(ONE_OF_SEVERAL, "") for word in kept]
        if ANY_WORDS in joined:
            plain = [each for word in plain for each in _with_further_words(word)]
        return WordFields(plain, ONE_OF_SEVERAL in joined)

    def value(self, start: int, end: int) -> str:
        """The value of an assignment, or a here-string: not split, no globs."""
        self._splits = False
        joined = self._read(start, end, self._unquoted)
        self._splits = True
        plain = (
            expansions.restore_literal_braces(joined)
            .replace(WORD_BREAK, " ")
            .replace(EMPTY_QUOTE, "")
        )
        return (
            plain.replace(GLOB_STAR, "*")
            .replace(GLOB_QUESTION, "?")
            .replace(GLOB_SET, "[")
            .replace(ANY_WORDS, ANY_WORD)
        )

    def body(self, start: int, end: int) -> str:
        """A here-document: quotes are literal, and expansions are made."""
        return (
            self._read(start, end, self._document).replace(EMPTY_QUOTE, "").replace(WORD_BREAK, " ")
        )

    def _piece(self, word: str, quoted: bool) -> str:
        """The operand of an expansion, such as the default in `${X:-default}`."""
        reader = WordReader(word, self.scope, {}, self.output)
        try:
            joined = reader._read(0, len(word), reader._quoted if quoted else reader._loose)
        except ShellSyntaxError:
            return ANY_WORD
        return expansions.restore_literal_braces(joined).replace(EMPTY_QUOTE, "")

    def _read(self, start: int, end: int, step: Callable[[int, int], int]) -> str:
        before, self.out = self.out, []
        at = self._tilde(start, end) if step == self._unquoted else start
        while at < end:
            at = step(at, end)
        if at > end:
            raise ShellSyntaxError("a word goes on where the parser ended it")
        joined, self.out = "".join(self.out), before
        return joined

    def _tilde(self, start: int, end: int) -> int:
        """A leading `~` or `~user`, also after `name=`."""
        found = re.compile(r"(?:[A-Za-z_]\w*=)?~([\w.-]*|\+)(?=/|:|\Z)", re.A).match(
            self.text, start, end
        )
        if not found:
            return start
        user = found.group(1)
        prefix = self.text[start : found.start(1) - 1]
        home = {"": self.scope.home, "+": self.scope.cwd, "root": "/root"}.get(user)
        self.out.append(prefix + (f"/home/{user}" if home is None else home))
        return found.end()

    def _unquoted(self, at: int, end: int) -> int:
        if run := _PLAIN_RUN.match(self.text, at, end):
            self.out.append(decode_text(run.group()))
            return run.end()
        letter = self.text[at]
        if letter in _LIVE_CHARACTERS:
            self.out.append(_LIVE_CHARACTERS[letter])
            return at + 1
        if letter == "\\":
            return self._escape(at)
        if letter in "'\"":
            self.out.append(EMPTY_QUOTE)
            return self._raw(at) if letter == "'" else self._string(at + 1, end)
        if letter in "$`":
            return self._dollar(at, end, quoted=False)
        if letter in "<>" and at in self.nodes:
            self.output(self.nodes[at])
            self.out.append("/dev/fd/" + SYSTEM_NAME)
            return self.nodes[at].end_byte
        raise ShellSyntaxError(f"{letter!r} in the middle of a word")

    def _loose(self, at: int, end: int) -> int:
        """In operands, spaces and metacharacters do not end a word."""
        if self.text[at] in " \t\n":
            self.out.append(WORD_BREAK)
            return at + 1
        if self.text[at] in "<>|&;()":
            self.out.append(self.text[at])
            return at + 1
        return self._unquoted(at, end)

    def _escape(self, at: int) -> int:
        if self.text[at + 1 : at + 2] != "\n":
            length = 1
            while "\x80" <= self.text[at + length + 1 : at + length + 2] <= "\xbf":
                length += 1
            self.out.append(decode_text(self.text[at + 1 : at + 1 + length]))
            return at + 1 + length
        return at + 2

    def _raw(self, at: int) -> int:
        close = self.text.find("'", at + 1)
        if close < 0:
            raise ShellSyntaxError("a quote without its end")
        self.out.append(decode_text(self.text[at + 1 : close]))
        return close + 1

    def _string(self, at: int, end: int) -> int:
        while at < end and self.text[at] != '"':
            at = self._quoted(at, end)
        if at >= end:
            raise ShellSyntaxError("a quote without its end")
        return at + 1

    def _quoted(self, at: int, end: int) -> int:
        if run := _QUOTED_RUN.match(self.text, at, end):
            self.out.append(decode_text(run.group()))
            return run.end()
        letter = self.text[at]
        if letter == "\\" and self.text[at + 1 : at + 2] in ("$", "`", '"', "\\", "\n"):
            return self._escape(at)
        if letter in '\\"':
            self.out.append(letter)
            return at + 1
        return self._dollar(at, end, quoted=True)

    def _document(self, at: int, end: int) -> int:
        if self.text[at] == "\\" and self.text[at + 1 : at + 2] == '"':
            self.out.append('\\"')
            return at + 2
        return self._quoted(at, end)

    def _dollar(self, at: int, end: int, *, quoted: bool) -> int:
        following = self.text[at + 1 : at + 2]
        if self.text[at] == "`" or following in ("(", "["):
            return self._substitution(at, quoted)
        if following == "{":
            return self._braced(at, end, quoted)
        if found := _VARIABLE.match(self.text, at, end):
            self._insert(self.parameters.simple(found.group(1), quoted), quoted)
            return found.end()
        if following == "'" and not quoted:
            return self._ansi(at)
        if following == '"' and not quoted:
            self.out.append(EMPTY_QUOTE)
            return self._string(at + 2, end)
        self.out.append("$")
        return at + 1

    def _ansi(self, at: int) -> int:
        found = re.compile(r"\$'((?:[^\\']|\\.)*)'", re.S).match(self.text, at)
        if not found:
            raise ShellSyntaxError("a quote without its end")
        self.out.append(EMPTY_QUOTE + decode_text(unescape_ansi(found.group(1))))
        return found.end()

    def _substitution(self, at: int, quoted: bool) -> int:
        node = self.nodes.get(at)
        if node is None:
            raise ShellSyntaxError("a substitution that the parser does not see")
        if node.type == "arithmetic_expansion":
            self.output(node)
            self.out.append(SYSTEM_NAME)
        else:
            self._insert(self.output(node).rstrip("\n"), quoted)
        return node.end_byte

    def _braced(self, at: int, end: int, quoted: bool) -> int:
        close = self._closing(at + 2, end)
        if self.nodes and (at not in self.nodes or self.nodes[at].end_byte != close + 1):
            raise ShellSyntaxError("an expansion that ends elsewhere for the parser")
        inside = self.text[at + 2 : close]
        if inside[:1] in (*" \t\n|",):
            raise ShellSyntaxError("an expansion that bash 5.3 runs as a command")
        if at in self.nodes:
            self.output(self.nodes[at])
        self._insert(self.parameters.braced(inside, quoted), quoted)
        return close + 1

    def _closing(self, at: int, end: int) -> int:
        depth = 1
        while at < end:
            letter = self.text[at]
            if letter == "\\":
                at += 1
            elif letter == "'" and (close := self.text.find("'", at + 1)) > 0:
                at = close
            elif letter in "$`<" and at in self.nodes and self.nodes[at].type != "expansion":
                at = self.nodes[at].end_byte - 1
            elif letter == "{":
                depth += 1
            elif letter == "}":
                depth -= 1
                if depth == 0:
                    return at
            at += 1
        raise ShellSyntaxError("an expansion without its end")

    def _insert(self, value: VariableValue, quoted: bool) -> None:
        """Inserts a value: in quotes unchanged, outside split and with active globs."""
        pieces = value if isinstance(value, tuple) else (value,)
        if quoted or not self._splits:
            self.out.append(
                WORD_BREAK.join(
                    EMPTY_QUOTE + piece.replace(ANY_WORDS, ANY_WORD) for piece in pieces
                )
            )
            return
        separators = self.scope.value("IFS")
        if not isinstance(separators, str) or has_untrusted_text(separators):
            self.out.append(ANY_WORDS)
            return
        text = WORD_BREAK.join(pieces).replace(ANY_WORD, ANY_WORDS)
        split = "".join(WORD_BREAK if letter in separators else letter for letter in text)
        self.out.append(with_live_globs(split))
