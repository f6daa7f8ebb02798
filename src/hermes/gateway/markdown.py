"""Text with styles: parsed from CommonMark once, split to fit a platform, then rendered for it.

Styles are spans over plain text, so a split never cuts a mark in half: a span that crosses a split
is closed in one piece and opened again in the next.
"""

import re
from collections.abc import Callable, Sequence

from markdown_it import MarkdownIt
from markdown_it.token import Token

from hermes.core.channels import SpanStyle, TextSpan
from hermes.core.messages import Value

LINK_SCHEMES = ("http://", "https://", "mailto:")
STYLE_BY_TOKEN: dict[str, SpanStyle] = {"strong": "bold", "em": "italic", "s": "strike"}
STYLE_BY_BLOCK: dict[str, SpanStyle] = {"h": "bold", "b": "quote"}
"""By the first letter of the HTML tag."""
BULLETS = ("• ", "◦ ", "▪ ")
LEAST_FILLED = 0.3
"""A piece that ends at a paragraph, a line or a word has at least this share of the limit."""
_MARKDOWN_SPECIALS = re.compile(r"([\\`*_{}\[\]()#+\-.!|~<>:@])")


class StyledText(Value, frozen=True):
    text: str
    spans: tuple[TextSpan, ...] = ()
    """By their beginning, the longer first; each within the text, none empty."""

    def slice(self, start: int, end: int) -> "StyledText":
        """A part of it, with what is left of its spans."""
        clipped = (
            TextSpan(max(s.start, start) - start, min(s.end, end) - start, s.style, s.value)
            for s in self.spans
        )
        return StyledText(self.text[start:end], tuple(s for s in clipped if s.start < s.end))

    def shifted(self, offset: int) -> tuple[TextSpan, ...]:
        return tuple(
            TextSpan(s.start + offset, s.end + offset, s.style, s.value) for s in self.spans
        )


def parse_markdown(text: str) -> StyledText:
    """Reads CommonMark with strikethrough. HTML is text, and an image is a link to it."""
    parser = MarkdownIt("commonmark", {"html": False}).enable("strikethrough")
    builder = _TextBuilder()
    for token in parser.parse(text.replace("\0", "")):
        builder.add_block(token)
    return builder.finish()


def plain_text(text: str) -> StyledText:
    return StyledText(text)


def join_texts(parts: Sequence[StyledText], separator: str) -> StyledText:
    """Join the parts that are not empty."""
    text, spans = "", list[TextSpan]()
    for part in parts:
        if not part.text:
            continue
        text += separator if text else ""
        spans += part.shifted(len(text))
        text += part.text
    return StyledText(text, _ordered(spans))


def split_text(
    styled: StyledText, max_size: int, size: Callable[[StyledText], int]
) -> list[StyledText]:
    """Pieces whose `size` is at most `max_size`: cut between paragraphs, lines, words, characters.

    The white space at a cut is dropped. A text that fits stays as it is.
    """
    pieces, start, text = list[StyledText](), 0, styled.text
    while start < len(text):
        if size(styled.slice(start, min(len(text), start + max_size))) <= max_size:
            fits = min(len(text), start + max_size)
        else:
            fits = _longest(styled, start, max_size, size)
        end = len(text) if fits >= len(text) else _cut(text, start, fits)
        piece = styled.slice(start, end)
        if piece.text.strip():
            pieces.append(piece)
        start = end
        while start < len(text) and text[start] == "\n" and start > 0:
            start += 1
    return pieces


def _longest(
    styled: StyledText, start: int, max_size: int, size: Callable[[StyledText], int]
) -> int:
    """The end of the longest piece that fits, by halving; at least one character."""
    low, high = start + 1, min(len(styled.text), start + max_size)
    while low < high:
        middle = (low + high + 1) // 2
        if size(styled.slice(start, middle)) <= max_size:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(text: str, start: int, fits: int) -> int:
    least = start + max(1, int((fits - start) * LEAST_FILLED))
    for separator in ("\n\n", "\n", " "):
        found = text.rfind(separator, least, fits + (separator != " "))
        if found > start:
            return found + (separator == " ")
    while fits > start + 1 and _joins(text[fits]):
        fits -= 1
    return fits


def _joins(character: str) -> bool:
    """Return whether a character changes the one before it: accents, joiners, skin tones."""
    code = ord(character)
    return (
        0x300 <= code <= 0x36F
        or code in (0x200D, 0xFE0F)
        or 0x1F3FB <= code <= 0x1F3FF
        or 0xE0020 <= code <= 0xE007F
    )


def text_length(text: str, unit: str) -> int:
    """The length as a platform counts it."""
    if unit == "utf16":
        return len(text) + sum(1 for character in text if character > "\uffff")
    if unit == "bytes":
        return len(text.encode("utf-8", "surrogatepass"))
    return len(text)


def render_text(styled: StyledText, format: str) -> str:
    """The text in the markup of a platform: plain, markdown, mrkdwn (Slack) or html."""
    match format:
        case "markdown":
            return _render(styled, escape_markdown, _MARKDOWN_MARKS)
        case "mrkdwn":
            return _render(styled, _escape_mrkdwn, _MRKDWN_MARKS)
        case "html":
            return _render(styled, _escape_html, _HTML_MARKS)
        case _:
            return styled.text


def escape_markdown(text: str) -> str:
    """Text in which no character is a mark."""
    return _MARKDOWN_SPECIALS.sub(r"\\\1", text)


def _escape_mrkdwn(text: str) -> str:
    """Slack has no escape for its marks: a zero-width space keeps them from being marks."""
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([*_~`])", "\\1\u200b", text)


def _escape_html(text: str) -> str:
    return (
        text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace('"', "&quot;")
    )


Marks = Callable[[TextSpan, str], tuple[str, str]]
"""Of a span and its text: what stands before and after it."""


def _markdown_marks(span: TextSpan, inner: str) -> tuple[str, str]:
    match span.style:
        case "code":
            fence = _fence(inner, 1)
            pad = " " if inner.startswith("`") or inner.endswith("`") else ""
            return fence + pad, pad + fence
        case "pre":
            fence = _fence(inner, 3)
            return f"{fence}{span.value}\n", f"\n{fence}"
        case "link":
            return "[", f"](<{span.value}>)"
        case "quote":
            return "> ", ""
    return {"bold": ("**", "**"), "italic": ("*", "*"), "strike": ("~~", "~~")}[span.style]


def _mrkdwn_marks(span: TextSpan, inner: str) -> tuple[str, str]:
    marks: dict[str, tuple[str, str]] = {
        "bold": ("*", "*"),
        "italic": ("_", "_"),
        "strike": ("~", "~"),
        "code": ("`", "`"),
        "pre": ("```\n", "\n```"),
        "quote": (">", ""),
        "link": (f"<{_escape_mrkdwn(span.value).replace('|', '%7C')}|", ">"),
    }
    return marks[span.style]


def _html_marks(span: TextSpan, inner: str) -> tuple[str, str]:
    marks: dict[str, tuple[str, str]] = {
        "bold": ("<strong>", "</strong>"),
        "italic": ("<em>", "</em>"),
        "strike": ("<del>", "</del>"),
        "code": ("<code>", "</code>"),
        "pre": ("<pre><code>", "</code></pre>"),
        "quote": ("<blockquote>", "</blockquote>"),
        "link": (f'<a href="{_escape_html(span.value)}">', "</a>"),
    }
    return marks[span.style]


class MarkupRules(Value, frozen=True):
    marks: Marks
    escapes_code: bool
    """Whether special characters are escaped inside code, too."""
    quotes_lines: bool
    """Whether each line of a quotation has the mark."""
    code_replacement: str = ""
    """What stands for a backtick in code, where it cannot be written."""


_MARKDOWN_MARKS = MarkupRules(_markdown_marks, escapes_code=False, quotes_lines=True)
_MRKDWN_MARKS = MarkupRules(
    _mrkdwn_marks, escapes_code=True, quotes_lines=True, code_replacement="ˋ"
)
_HTML_MARKS = MarkupRules(_html_marks, escapes_code=True, quotes_lines=False)


def _render(styled: StyledText, escape: Callable[[str], str], rules: MarkupRules) -> str:
    return _render_range(styled, 0, len(styled.text), list(styled.spans), escape, rules)


def _render_range(
    styled: StyledText,
    start: int,
    end: int,
    spans: list[TextSpan],
    escape: Callable[[str], str],
    rules: MarkupRules,
) -> str:
    """`spans`: those within the range. One that overlaps an earlier one without lying in it is
    shown as far as that reaches."""
    out, at = list[str](), start
    while spans:
        span = spans.pop(0)
        inside = [s for s in spans if s.start < span.end]
        spans = [s for s in spans if s.start >= span.end]
        inside = [TextSpan(s.start, min(s.end, span.end), s.style, s.value) for s in inside]
        if span.start < at:
            continue
        out.append(escape(styled.text[at : span.start]))
        raw = styled.text[span.start : span.end]
        if span.style in ("code", "pre"):
            inner = escape(raw) if rules.escapes_code and not rules.code_replacement else raw
            if rules.code_replacement:
                inner = _escape_html(raw.replace("`", rules.code_replacement)).replace(
                    "&quot;", '"'
                )
        else:
            inner = _render_range(styled, span.start, span.end, inside, escape, rules)
        before, after = rules.marks(span, raw)
        if span.style == "quote" and rules.quotes_lines:
            inner = inner.replace("\n", f"\n{before}")
        out += [before, inner, after]
        at = span.end
    out.append(escape(styled.text[at:end]))
    return "".join(out)


def code_block(text: str, language: str = "") -> str:
    """CommonMark that shows the text as it is, whatever it contains."""
    fence = _fence(text, 3)
    return f"{fence}{language}\n{text}\n{fence}"


def code_words(text: str) -> str:
    """The same for a few words within a line."""
    before, after = _markdown_marks(TextSpan(0, len(text), "code"), text)
    return f"{before}{text}{after}"


def _fence(text: str, least: int) -> str:
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    return "`" * max(least, longest + 1)


def _ordered(spans: Sequence[TextSpan]) -> tuple[TextSpan, ...]:
    return tuple(sorted(spans, key=lambda s: (s.start, -s.end)))


class _TextBuilder:
    """Collects the tokens of a document as text and spans."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._spans: list[TextSpan] = []
        self._open: list[tuple[int, str, str]] = []
        self._lists: list[int] = []
        """Of each list around: the number of its next item; 0 for bullets."""
        self._at_item = False
        self._tight = 0

    def add_block(self, token: Token) -> None:
        match token.type:
            case "inline":
                for child in token.children or []:
                    self._add_inline(child)
            case "fence" | "code_block":
                self._begin_block()
                self._open_span("pre", token.info.split()[0] if token.info.split() else "")
                self._write(token.content.rstrip("\n") or " ")
                self._close_span("pre")
            case "hr":
                self._begin_block()
                self._write("———")
            case _:
                self._add_structure(token)

    def _add_structure(self, token: Token) -> None:
        match token.type:
            case "paragraph_open":
                self._begin_block(tight=token.hidden)
            case "heading_open" | "blockquote_open":
                self._begin_block()
                self._open_span(STYLE_BY_BLOCK[token.tag[:1]])
                self._at_item = token.tag == "blockquote"
            case "heading_close" | "blockquote_close":
                self._close_span(STYLE_BY_BLOCK[token.tag[:1]])
                self._at_item = False
            case "bullet_list_open":
                self._lists.append(0)
            case "ordered_list_open":
                self._lists.append(int(token.attrGet("start") or 1))
            case "bullet_list_close" | "ordered_list_close":
                self._lists.pop()
            case "list_item_open":
                self._begin_item()
            case "list_item_close":
                self._at_item = False
            case _:
                pass

    def _begin_item(self) -> None:
        self._begin_block(tight=True)
        number = self._lists[-1]
        if number:
            self._lists[-1] += 1
            self._write(f"{number}. ")
        else:
            self._write(BULLETS[min(len(self._lists), len(BULLETS)) - 1])
        self._at_item = True

    def _begin_block(self, *, tight: bool = False) -> None:
        if self._at_item:  # the first block of an item stands on the line of its bullet
            self._at_item = False
        elif self._length:
            inner = tight and (self._lists or self._tight)
            self._write("\n" if inner and len(self._parts) and self._tight else "\n\n")
        self._tight = len(self._lists)

    def _add_inline(self, token: Token) -> None:
        kind, _, edge = token.type.rpartition("_")
        if kind in STYLE_BY_TOKEN and edge == "open":
            self._open_span(STYLE_BY_TOKEN[kind])
        elif kind in STYLE_BY_TOKEN:
            self._close_span(STYLE_BY_TOKEN[kind])
        elif token.type == "code_inline":
            self._open_span("code")
            self._write(token.content)
            self._close_span("code")
        elif token.type == "link_open":
            self._open_span("link", str(token.attrGet("href") or ""))
        elif token.type == "link_close":
            self._close_span("link")
        elif token.type == "image":
            self._open_span("link", str(token.attrGet("src") or ""))
            self._write(token.content or str(token.attrGet("src") or ""))
            self._close_span("link")
        elif token.type in ("softbreak", "hardbreak"):
            self._write("\n")
        else:
            self._write(token.content)

    def _write(self, text: str) -> None:
        self._parts.append(text)
        self._length += len(text)

    def _open_span(self, style: SpanStyle, value: str = "") -> None:
        self._open.append((self._length, style, value))

    def _close_span(self, style: SpanStyle) -> None:
        for number in range(len(self._open) - 1, -1, -1):
            start, opened, value = self._open[number]
            if opened == style:
                del self._open[number]
                known = style != "link" or value.startswith(LINK_SCHEMES)
                if start < self._length and known:
                    self._spans.append(TextSpan(start, self._length, style, value))
                return

    def finish(self) -> StyledText:
        return StyledText("".join(self._parts), _ordered(self._spans))
