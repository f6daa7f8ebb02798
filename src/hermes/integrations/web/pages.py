"""Reads pages: fetches them behind the address guard, and finds their text by what they are."""

import codecs
import io
import json
import re
import time
import zlib
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import anyio
import msgspec

from hermes.core.errors import ToolError
from hermes.core.foreign_text import visible_line, visible_text
from hermes.core.messages import OutgoingRequest
from hermes.core.web_content import PageContent, RendersPages
from hermes.integrations.web.html_text import read_html
from hermes.plumbing.addresses import AddressGuard, HttpAddressForbidden, guard_for
from hermes.plumbing.http_client import HttpAnswer, HttpError, HttpLimits, send_http_request

PAGE_LIMITS = HttpLimits(
    timeout_s=10, total_timeout_s=20, max_answer_bytes=10 * 2**20, max_redirects=5
)
RENDER_LIMITS = HttpLimits(timeout_s=60, total_timeout_s=90, max_answer_bytes=10 * 2**20)
USER_AGENT = "Mozilla/5.0 (compatible; hermes-oncall)"
READ_TIMEOUT_S = 30.0
"""For the text of a page that was fetched."""
MAX_TEXT_CHARS = 1_000_000
MAX_PDF_PAGES = 200
PDF_EXTRA_HINT = 'to read PDF files, install pypdf: pip install "hermes-oncall[pdf]"'
RENDER_HINT = "to run the scripts of pages: hermes config set FIRECRAWL_API_KEY <key>"
_FORBIDDEN_IN_URL = re.compile(r"[\s\\\x00-\x1f\x7f<>\"]")
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?\s*([\w.:-]{1,40})", re.I)
_HTML_START = re.compile(
    r"\s*(?:<!--.{0,2000}?-->\s*)?<(?:!doctype\s+html|html|head|body)\b", re.I | re.S
)
_UNSAFE_CODECS = frozenset(
    {"utf-7", "punycode", "idna", "unicode_escape", "raw_unicode_escape", "undefined", "mbcs"}
)
"""They decode, but are no charsets of pages; some take for ever."""
_NO_TEXT_TYPES = re.compile(
    r"(?:image|audio|video|font)/(?!svg)|application/(?:zip|gzip|x-tar|wasm)"
)
_MAX_CONTROL_SHARE = 0.05
_SAMPLE_CHARS = 4096
_LITTLE_TEXT_CHARS = 200


def normalize_url(url: str) -> str:
    """The address as it is judged and fetched: the host in ASCII, no fragment.

    Raises `ToolError`.
    """
    text = url.strip()
    if not text or len(text) > 4000 or _FORBIDDEN_IN_URL.search(text):
        raise ToolError(f"{visible_line(text, 80)!r} is no address of a page")
    try:
        parts = urlsplit(text)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise ToolError(f"{visible_line(text, 80)!r} is no address: {error}") from error
    if parts.scheme not in ("http", "https"):
        raise ToolError(f"only http and https addresses are read, not {visible_line(text, 80)!r}")
    if "@" in parts.netloc:
        raise ToolError("the address contains a user or a password (user@host): leave it out")
    if not host or port == 0:
        raise ToolError(f"{visible_line(text, 80)!r} names no host")
    if ":" not in host:
        try:
            host = host.encode("idna").decode()
        except UnicodeError as error:
            raise ToolError(f"{visible_line(host, 80)!r} is no name of a host: {error}") from error
    else:
        host = f"[{host}]"
    netloc = f"{host}:{port}" if port else host
    return urlunsplit((parts.scheme, netloc, parts.path or "/", parts.query, ""))


class PageReader:
    """Implements `ReadsPages`. `private` allows the private addresses that the operator named;
    `renderer` runs the scripts of a page."""

    def __init__(
        self,
        private: AddressGuard | None = None,
        renderer: RendersPages | None = None,
        limits: HttpLimits = PAGE_LIMITS,
    ) -> None:
        self._allowed = private.allowed if private else frozenset()
        self._renderer, self._limits = renderer, limits

    def preview(self, url: str, *, render: bool) -> OutgoingRequest:
        address = normalize_url(url)
        if render:
            return self._require_renderer().preview(address)
        return OutgoingRequest(
            method="GET", url=address, effect="read", configured=bool(self._guard(address).allowed)
        )

    async def read(self, url: str, *, render: bool) -> PageContent:
        address = normalize_url(url)
        if render:
            final, html = await self._require_renderer().render(address)
            return await _in_thread(lambda: _clean_page(read_html(decode_html(html, ""), final)))
        answer = await self._fetch(address)
        return await _in_thread(lambda: read_document(answer))

    def _require_renderer(self) -> RendersPages:
        if self._renderer is None:
            raise ToolError(f"nothing here can run the scripts of a page; {RENDER_HINT}")
        return self._renderer

    def _guard(self, address: str) -> AddressGuard:
        """Only an address that was asked for may be private, never one that a page redirects to."""
        asked = guard_for([address])
        return asked if asked.allowed <= self._allowed else AddressGuard()

    async def _fetch(self, address: str) -> HttpAnswer:
        try:
            answer = await send_http_request(
                "GET",
                address,
                self._limits,
                headers={"User-Agent": USER_AGENT, "Accept": "text/html,*/*;q=0.8"},
                guard=self._guard(address),
            )
        except HttpAddressForbidden as error:
            raise ToolError(
                f"{error}; the operator can allow it by host and port: "
                "hermes config set tools.private_addresses <host:port>"
            ) from error
        except HttpError as error:
            raise ToolError(f"{visible_line(address, 200)}: {error}") from error
        if answer.status >= 400:
            wait = f"; it asks to wait: {answer.retry_after}" if answer.retry_after else ""
            raise ToolError(
                f"{visible_line(answer.url, 200)} answers {answer.status} "
                f"{visible_line(answer.reason, 80)}{visible_line(wait, 80)}"
            )
        return answer


async def _in_thread(read: Callable[[], PageContent]) -> PageContent:
    try:
        with anyio.fail_after(READ_TIMEOUT_S):
            return await anyio.to_thread.run_sync(read, abandon_on_cancel=True)
    except TimeoutError as error:
        raise ToolError(f"the page could not be read within {READ_TIMEOUT_S:.0f} s") from error


def read_document(answer: HttpAnswer) -> PageContent:
    """The text of an answer, by its content first and its type second. Raises `ToolError`."""
    kind = answer.content_type.partition(";")[0].strip().lower()
    if answer.body[:1024].lstrip().startswith(b"%PDF-"):
        return _clean_page(read_pdf(answer.body, answer.url))
    if _NO_TEXT_TYPES.match(kind):
        raise ToolError(f"it is {visible_line(kind, 60)}, which has no text")
    text = decode_html(answer.body, answer.content_type)
    if _is_binary(text):
        named = visible_line(kind, 60) or "no type"
        raise ToolError(f"it is not text, although it says {named}")
    if (found := _read_json(text, kind)) is not None:
        return _clean_page(PageContent(url=answer.url, kind="json", text=found))
    if "html" in kind or _HTML_START.match(text):
        return _read_plain_html(text, answer.url)
    return _clean_page(PageContent(url=answer.url, kind="text", text=text))


def decode_html(body: bytes, content_type: str) -> str:
    """By byte order mark, by header, by `<meta>`, else UTF-8; an unknown charset is not used."""
    for mark, name in (
        (codecs.BOM_UTF8, "utf-8-sig"),
        (codecs.BOM_UTF16_LE, "utf-16"),
        (codecs.BOM_UTF16_BE, "utf-16"),
    ):
        if body.startswith(mark):
            return body.decode(name, "replace")
    declared = re.search(r"charset\s*=\s*[\"']?([\w.:-]{1,40})", content_type, re.I)
    in_page = _META_CHARSET.search(body[:4096])
    names = [declared[1]] if declared else []
    names += [in_page[1].decode()] if in_page else []
    for name in names:
        try:
            if codecs.lookup(name).name not in _UNSAFE_CODECS:
                return body.decode(name, "replace")
        except (LookupError, ValueError):
            continue
    try:
        return body.decode("utf-8")
    except UnicodeDecodeError:
        return body.decode("utf-8" if b"\xc3" in body else "cp1252", "replace")


def read_pdf(body: bytes, url: str, *, max_pages: int = MAX_PDF_PAGES) -> PageContent:
    """Raises `ToolError`. Only the first pages, and only for a while."""
    try:
        from pypdf import PdfReader  # noqa: PLC0415 - with the first PDF file
        from pypdf.errors import PyPdfError  # noqa: PLC0415 - with the first PDF file
    except ImportError as error:
        raise ToolError(f"it is a PDF file; {PDF_EXTRA_HINT}") from error

    texts: list[str] = []
    deadline, notes = time.monotonic() + READ_TIMEOUT_S / 2, list[str]()
    try:
        reader = PdfReader(io.BytesIO(body))
        count = len(reader.pages)
        for number, page in enumerate(reader.pages, 1):
            if number > max_pages or time.monotonic() > deadline:
                notes.append(f"only the first {number - 1} of {count} pages were read")
                break
            texts.append(page.extract_text())
        about = reader.metadata
        title = str(about.title or "") if about else ""
        date = f"{about.creation_date:%Y-%m-%d}" if about and about.creation_date else ""
    except (
        *(PyPdfError, ValueError, KeyError, TypeError, AttributeError, IndexError, OSError),
        *(RecursionError, zlib.error, NotImplementedError, AssertionError, MemoryError),
    ) as error:
        why = visible_line(str(error), 120) or type(error).__name__
        raise ToolError(f"the PDF file cannot be read: {why}") from error
    text = "\n\n".join(texts).strip()
    if not text:
        notes.append("the PDF file has no text: its pages may be pictures")
    return PageContent(
        url=url, kind="pdf", text=text, title=visible_line(title), date=date, notes=tuple(notes)
    )


def _is_binary(text: str) -> bool:
    sample = text[:_SAMPLE_CHARS]
    odd = sum(each < " " and each not in "\t\n\r\f\x1b" for each in sample)
    replaced = sample.count("\ufffd")
    return bool(sample) and (odd / len(sample) > _MAX_CONTROL_SHARE or replaced > len(sample) / 4)


def _read_json(text: str, kind: str) -> str | None:
    """Return None when it is no JSON; one that says so and is broken is shown as it is."""
    if not (kind.endswith(("/json", "+json")) or text.lstrip()[:1] in ("{", "[")):
        return None
    try:
        return json.dumps(json.loads(text), indent=1, ensure_ascii=False)
    except (ValueError, RecursionError):
        return text if kind.endswith(("/json", "+json")) else None


def _read_plain_html(html: str, url: str) -> PageContent:
    page = read_html(html, url)
    if len(page.text) < _LITTLE_TEXT_CHARS and "<script" in html.lower():
        notes = (*page.notes, "the scripts of the page may bring its text: render=true runs them")
        page = msgspec.structs.replace(page, notes=notes)
    return _clean_page(page)


def _clean_page(page: PageContent) -> PageContent:
    """Without invisible characters, and no longer than can be kept."""
    notes = page.notes
    if len(page.text) > MAX_TEXT_CHARS:
        notes = (*notes, f"the text was cut at {MAX_TEXT_CHARS:,} characters")
    text = visible_text(page.text[:MAX_TEXT_CHARS].replace("\r\n", "\n")).strip()
    return msgspec.structs.replace(page, text=text, notes=notes)


class FirecrawlRenderer:
    """Implements `RendersPages` by the service of Firecrawl, or a server of one's own."""

    name = "firecrawl"

    def __init__(self, url: str, key: str) -> None:
        self._base, self._key = url.rstrip("/") or "https://api.firecrawl.dev", key
        self._guard = guard_for([url] if url else ())

    def preview(self, url: str) -> OutgoingRequest:
        return OutgoingRequest(
            method="POST", url=f"{self._base}/v2/scrape", body=_scrape_body(url), effect="read"
        )

    async def render(self, url: str) -> tuple[str, bytes]:
        await _require_public(url)
        try:
            answer = await send_http_request(
                "POST",
                f"{self._base}/v2/scrape",
                RENDER_LIMITS,
                headers={
                    "Authorization": f"Bearer {self._key}",
                    "Content-Type": "application/json",
                    "User-Agent": USER_AGENT,
                },
                body=_scrape_body(url).encode(),
                guard=self._guard,
            )
        except HttpError as error:
            raise ToolError(f"firecrawl: {error}") from error
        if answer.status != 200:
            key = "; is the key FIRECRAWL_API_KEY right?" if answer.status in (401, 403) else ""
            raise ToolError(f"firecrawl answers {answer.status} {answer.reason}{key}")
        try:
            data = json.loads(answer.body)["data"]
            final = str(data["metadata"].get("url") or url)
            return normalize_url(final), str(data["rawHtml"]).encode()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise ToolError("firecrawl answered something that is no page") from error


def _scrape_body(url: str) -> str:
    return json.dumps({"url": url, "formats": ["rawHtml"]})


async def _require_public(url: str) -> None:
    """The name of a private host is not sent to a service."""
    parts = urlsplit(url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    try:
        await AddressGuard().resolve(parts.hostname or "", port)
    except (HttpError, OSError, UnicodeError) as error:
        raise ToolError(f"{parts.hostname}: {error}; it is not given to a service") from error
