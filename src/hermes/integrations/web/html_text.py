"""The text of HTML: its main part by trafilatura, or by the standard parser where that is missing.

trafilatura loads lxml and much more, so it is imported with the first page.
"""

import re
from collections.abc import Iterator
from html import unescape
from html.parser import HTMLParser
from urllib.parse import urljoin, urlsplit

from hermes.core.foreign_text import visible_line
from hermes.core.web_content import PageContent, PageLink

MAX_MAIN_TEXT_CHARS = 3_000_000
"""A longer page is read by the standard parser: the time of the other grows faster than the page.
"""
MAX_NESTED_TAGS = 500
"""Deeper pages are read by the standard parser: the other walks the tree again for each level."""
MAX_MAIN_TEXT_TAGS, MAX_OUTLINE_TAGS = 60_000, 150_000
"""A page with more tags is read by the standard parser, with still more only by their removal."""
MAX_LINKS = 60
_MAX_LINK_CHARS, _MAX_URL_CHARS = 120, 500
_INLINE_LINK = re.compile(r"\[([^\[\]]{1,500})\]\(((?:[^()\s]|\([^()\s]*\)){1,2000})\)")
_TAG = re.compile(r"<[^<>]{0,2000}>")
_OPENING_OR_CLOSING = re.compile(r"<(/?)(div|span|table|ul|ol|section|font|b|i|a)[\s>/]", re.I)
_UNREAD_START = re.compile(r"<!--|<(?:script|style)\b", re.I)
_UNREAD_ENDS = {
    "<!--": re.compile("-->"),
    "<script": re.compile(r"</script[^<>]{0,100}>", re.I),
    "<style": re.compile(r"</style[^<>]{0,100}>", re.I),
}
_TAG_OR_STRAY = re.compile(r"<(/?[a-zA-Z][\w:-]{0,40})([^<>]{0,8000})>|<[!?][^<>]{0,2000}>|<")
_QUOTED = re.compile(r"\"[^\"]*\"|'[^']*'")
_BLANK_LINES = re.compile(r"[ \t]*\n(?:[ \t]*\n)+")
_SKIPPED_TAGS = frozenset(
    {"script", "style", "noscript", "template", "svg", "head", "iframe", "object", "select"}
    | {"nav", "header", "footer", "aside", "form", "button", "menu", "dialog"}
)
"""What is not part of the text; a page that is nothing else is read again with all but scripts."""
_SCRIPT_TAGS = frozenset({"script", "style", "noscript", "template", "svg", "iframe", "object"})
_BLOCK_TAGS = frozenset(
    {"p", "div", "br", "li", "ul", "ol", "tr", "table", "section", "article", "main", "pre"}
    | {"h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "dt", "dd", "hr", "figcaption", "td"}
)
_VOID_TAGS = frozenset(
    {"br", "hr", "img", "input", "meta", "link", "area", "base", "col", "embed", "source"}
    | {"track", "wbr", "param"}
)
_DATE_NAMES = frozenset(
    {"article:published_time", "date", "dc.date", "dc.date.issued", "datepublished", "pubdate"}
)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def read_html(html: str, url: str, *, max_chars: int = MAX_MAIN_TEXT_CHARS) -> PageContent:
    """The main text with title, date and links. Takes processor time: call it in a thread."""
    too_many = html.count("<") > MAX_MAIN_TEXT_TAGS
    if len(html) > max_chars or too_many or _is_nested_deeply(html):
        return read_outline(html, url, "the page is too large to find its main text")
    try:
        found = extract_main_text(html, url)
    except ImportError:
        return read_outline(html, url, "read without trafilatura, menus may be among the text")
    if found is None:
        return read_outline(html, url, "no main text was found, this is all text of the page")
    text, title, date = found
    plain, links = _split_links(text, url)
    return PageContent(
        url=url, kind="html", text=plain, title=visible_line(title), date=date, links=links
    )


def extract_main_text(html: str, url: str) -> tuple[str, str, str] | None:
    """Text with links in Markdown, title and date; None when there is no main text.

    Raises `ImportError` without trafilatura.
    """
    from lxml.etree import LxmlError  # noqa: PLC0415 - with the first page
    from trafilatura import bare_extraction  # noqa: PLC0415 - with the first page

    try:
        found = bare_extraction(
            html,
            url=url,
            include_comments=False,
            include_links=True,
            with_metadata=True,
        )
    except (LxmlError, ValueError, TypeError, AttributeError, RecursionError, LookupError):
        return None  # a page that it cannot read; the standard parser can
    if found is None or isinstance(found, dict) or not (found.text or "").strip():
        return None
    return found.text or "", found.title or "", found.date or ""


class PageOutline(HTMLParser):
    """All text of a page, title, date and links, by the standard parser."""

    def __init__(self, html: str, url: str, skipped: frozenset[str] = _SKIPPED_TAGS) -> None:
        super().__init__(convert_charrefs=True)
        self.title, self.date = "", ""
        self.links: list[PageLink] = []
        self._skipped_tags, self._url = skipped, url
        self._open_skipped: list[str] = []
        self._parts: list[str] = []
        self._title_parts: list[str] | None = None
        self._link: tuple[str, list[str]] | None = None
        self.feed(html)
        self.close()

    @property
    def text(self) -> str:
        lines = (" ".join(line.split()) for line in "".join(self._parts).split("\n"))
        return _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        if tag == "title":
            self._title_parts = []
        elif tag == "meta":
            self._read_meta(values)
        elif tag == "base" and values.get("href"):
            self._url = _join(self._url, values["href"]) or self._url
        if tag in self._skipped_tags:
            self._open_skipped.append(tag)
        elif tag == "a" and not self._open_skipped:
            self._link = (values.get("href", ""), [])
        if tag in _BLOCK_TAGS and not self._open_skipped:
            self._parts.append("\n")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in _VOID_TAGS:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag == "title" and self._title_parts is not None:
            self.title = self.title or visible_line("".join(self._title_parts))
            self._title_parts = None
        if tag in self._open_skipped:
            while self._open_skipped.pop() != tag:
                pass
        if tag == "a" and self._link is not None:
            self._keep_link(*self._link)
            self._link = None
        if tag in _BLOCK_TAGS and not self._open_skipped:
            self._parts.append("\n")

    def handle_data(self, data: str) -> None:
        if self._title_parts is not None:
            self._title_parts.append(data)
        elif not self._open_skipped:
            self._parts.append(data)
            if self._link is not None:
                self._link[1].append(data)

    def _keep_link(self, target: str, texts: list[str]) -> None:
        if len(self.links) < MAX_LINKS and (link := make_link("".join(texts), target, self._url)):
            self.links.append(link)

    def _read_meta(self, values: dict[str, str]) -> None:
        name = (values.get("property") or values.get("name") or values.get("itemprop", "")).lower()
        content = values.get("content", "")
        if name in _DATE_NAMES and not self.date and (found := _DATE.search(content)):
            self.date = found.group()
        elif name == "og:title" and not self.title:
            self.title = visible_line(content)


class _AnchorReader(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.anchors: list[tuple[frozenset[str], str, str]] = []
        self._open: tuple[frozenset[str], str, list[str]] | None = None
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "a":
            values = {name: value or "" for name, value in attrs}
            classes = frozenset(values.get("class", "").split())
            self._open = (classes, values.get("href", ""), [])

    def handle_endtag(self, tag: str) -> None:
        if tag == "a" and self._open is not None:
            classes, target, texts = self._open
            self.anchors.append((classes, target, " ".join("".join(texts).split())))
            self._open = None

    def handle_data(self, data: str) -> None:
        if self._open is not None:
            self._open[2].append(data)


def read_anchors(html: str) -> Iterator[tuple[frozenset[str], str, str]]:
    """Of each link: its classes, target and text."""
    return iter(_AnchorReader(html).anchors)


def strip_tags(text: str) -> str:
    """Plain text of a snippet, in which providers mark the words that were found."""
    return unescape(_TAG.sub("", text)) if "<" in text or "&" in text else text


def make_link(text: str, target: str, base: str) -> PageLink | None:
    """Return None for a link that leads to no other page."""
    target = target.strip().strip("<>")
    if not target or target.startswith(("#", "javascript:", "mailto:", "data:", "tel:")):
        return None
    url = _join(base, target)
    shown = visible_line(text, _MAX_LINK_CHARS)
    return PageLink(shown, url) if url and shown else None


def read_outline(html: str, url: str, note: str) -> PageContent:
    """All text of a page, by the standard parser."""
    plain = _without_scripts(html)
    if plain.count("<") > MAX_OUTLINE_TAGS:
        lines = (" ".join(line.split()) for line in unescape(_TAG.sub("\n", plain)).split("\n"))
        text = _BLANK_LINES.sub("\n\n", "\n".join(lines)).strip()
        return PageContent(url=url, kind="html", text=text, notes=(note,))
    plain = _TAG_OR_STRAY.sub(_fix_tag, plain)
    outline = PageOutline(plain, url)
    text = outline.text or PageOutline(plain, url, _SCRIPT_TAGS).text  # all may be in a form
    return PageContent(
        url=url,
        kind="html",
        text=text,
        title=outline.title,
        date=outline.date,
        links=tuple(dict.fromkeys(outline.links)),
        notes=(note,),
    )


def _without_scripts(html: str) -> str:
    """Without scripts, styles and comments."""
    parts, at = [], 0
    while found := _UNREAD_START.search(html, at):
        parts.append(html[at : found.start()])
        end = _UNREAD_ENDS[found.group().lower()].search(html, found.end())
        at = end.end() if end else len(html)
    return "".join([*parts, html[at:]])


def _fix_tag(found: re.Match[str]) -> str:
    """A whole tag: 100 kB of broken ones take the standard parser 19 seconds."""
    if not found[1]:
        return "&lt;" if found[0] == "<" else ""
    left = _QUOTED.sub("", found[2])
    return f"<{found[1]}>" if '"' in left or "'" in left else found[0]


def _is_nested_deeply(html: str) -> bool:
    depth = 0
    for found in _OPENING_OR_CLOSING.finditer(html):
        depth = max(0, depth + (-1 if found[1] else 1))
        if depth > MAX_NESTED_TAGS:
            return True
    return False


def _split_links(text: str, base: str) -> tuple[str, tuple[PageLink, ...]]:
    """The text without its links, and the links in their order."""
    links: dict[PageLink, None] = {}

    def keep(found: re.Match[str]) -> str:
        if len(links) < MAX_LINKS and (link := make_link(found[1], found[2], base)):
            links[link] = None
        return found[1]

    return _INLINE_LINK.sub(keep, text), tuple(links)


def _join(base: str, target: str) -> str:
    try:
        url = urljoin(base, target.strip())
        plain = urlsplit(url).scheme in ("http", "https") and url.isprintable()
    except ValueError:
        return ""
    return url if plain and len(url) <= _MAX_URL_CHARS else ""
