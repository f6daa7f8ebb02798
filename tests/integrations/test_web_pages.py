"""Pages of every kind, good and bad, from a real server on this host."""

import gzip
import io
import json
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
import pytest
from anyio.abc import SocketAttribute, SocketStream
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from hermes.core.errors import ToolError
from hermes.core.web_content import PageContent
from hermes.integrations.web import pages
from hermes.integrations.web.html_text import read_html, read_outline
from hermes.integrations.web.pages import FirecrawlRenderer, PageReader, normalize_url, read_pdf
from hermes.plumbing.addresses import guard_for
from hermes.plumbing.http_client import HttpLimits
from standins.search import KEY, SearchStandin

pytestmark = pytest.mark.anyio
ARTICLE = "".join(
    f"<p>The upstream server closed connection number {number} while it read the response. "
    "So the proxy answered with a bad gateway, and the client tried again.</p>"
    for number in range(12)
)
PAGE = f"""<!doctype html><html><head><title>Bad gateway explained</title>
<meta property="article:published_time" content="2026-02-03T10:00:00Z"></head><body>
<nav><a href="/menu">Menu of the site</a></nav><article><h1>Bad gateway explained</h1>{ARTICLE}
<p>How a proxy is told to wait longer for its upstream servers, and why that rarely helps, is in
<a href="../guide?a=1#x">the guide</a> of the same project, which also explains how connections are
kept open between requests and when they are <a href="javascript:x()">closed</a>.</p></article>
<footer>Imprint of the site</footer><script>var secret = 1</script></body></html>"""


class PageServer:
    """Answers every request with the same bytes, and keeps what was asked."""

    def __init__(self, port: int) -> None:
        self.url, self.heads = f"http://127.0.0.1:{port}", list[bytes]()


@asynccontextmanager
async def serving(answer: bytes, *, endless: bytes = b"") -> AsyncGenerator[PageServer, None]:
    async def serve(stream: SocketStream) -> None:
        async with stream:
            try:
                found.heads.append(await stream.receive())
                await stream.send(answer.replace(b"{self}", found.url.encode()))
                while endless:
                    await stream.send(endless)
            except (anyio.BrokenResourceError, anyio.EndOfStream):
                return  # the client hung up, as it should

    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    found = PageServer(listener.extra(SocketAttribute.local_port))
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, serve)
        yield found
        group.cancel_scope.cancel()


def reply(body: bytes | str, kind: str = "text/html", *heads: str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    lines = [
        *("HTTP/1.1 200 OK", f"content-length: {len(data)}", "connection: close"),
        *([f"content-type: {kind}"] if kind else []),
        *heads,
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


async def read(answer: bytes) -> PageContent:
    async with serving(answer) as server:
        return await PageReader(guard_for([server.url])).read(
            f"{server.url}/docs/page", render=False
        )


async def failure(
    answer: bytes, *, endless: bytes = b"", limits: HttpLimits = pages.PAGE_LIMITS
) -> str:
    async with serving(answer, endless=endless) as server:
        reader = PageReader(guard_for([server.url]), limits=limits)
        with pytest.raises(ToolError) as caught:
            await reader.read(f"{server.url}/docs/page", render=False)
    return str(caught.value)


async def test_a_page_has_text_title_date_address_and_links() -> None:
    async with serving(reply(PAGE)) as server:
        page = await PageReader(guard_for([server.url])).read(
            f"{server.url}/docs/page#top", render=False
        )
        assert page.url == f"{server.url}/docs/page"
        check_article(page, f"{server.url}/guide?a=1#x")
        assert page.notes == ()
        assert b"hermes-oncall" in server.heads[0]
        assert b"cookie" not in server.heads[0].lower()


def check_article(page: PageContent, guide: str) -> None:
    assert (page.kind, page.title, page.date) == ("html", "Bad gateway explained", "2026-02-03")
    assert "connection number 7" in page.text
    assert "secret" not in page.text
    assert "Menu of the site" not in page.text
    assert "Imprint of the site" not in page.text
    assert ("the guide", guide) in [(link.text, link.url) for link in page.links]
    assert "closed" not in [link.text for link in page.links]


def test_the_standard_parser_finds_the_same_in_a_plain_page() -> None:
    check_article(
        read_outline(PAGE, "https://a.example/docs/page", ""), "https://a.example/guide?a=1#x"
    )
    form = "<html><body><form><label>all in a form</label></form></body></html>"
    assert read_outline(form, "https://a.example/", "").text == "all in a form"
    odd = "<p>a<b>b</p></b></nav></form><![CDATA[x]]><!doctype y><p>c&amp;d<"
    assert read_outline(odd, "https://a.example/", "").text.split() == ["ab", "c&d<"]


@pytest.mark.command
def test_without_the_libraries_the_reader_says_what_brings_them() -> None:
    code = (
        "import sys; sys.modules['trafilatura'] = None; sys.modules['pypdf'] = None\n"
        "from hermes.integrations.web.html_text import read_html\n"
        "from hermes.integrations.web.pages import read_pdf\n"
        "print(read_html('<p>some text', 'https://a.example/'))\n"
        "try: read_pdf(b'%PDF-1.4', 'https://a.example/')\n"
        "except Exception as error: print(error)\n"
        "print('lxml' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "some text" in done.stdout
    assert "read without trafilatura" in done.stdout
    assert 'pip install "hermes-oncall[pdf]"' in done.stdout


@pytest.mark.parametrize(
    ("body", "kind", "charset"),
    [
        ("größer".encode("latin-1"), "text/html; charset=iso-8859-1", "header"),
        (b'<meta charset="windows-1251">' + "привет".encode("cp1251"), "text/html", "meta"),
        ("größer".encode("utf-16"), "text/html", "mark"),
        ("größer".encode(), "text/html; charset=klingon-8", "unknown"),
        ("größer".encode(), "text/html; charset=punycode", "no charset of pages"),
        ("größer".encode("cp1252"), "text/html", "none"),
    ],
)
async def test_charsets_are_found_and_unknown_ones_do_no_harm(
    body: bytes, kind: str, charset: str
) -> None:
    words = ("größer", "привет")
    assert any(word in pages.decode_html(body, kind) for word in words), charset


@pytest.mark.parametrize(
    ("body", "kind", "expected", "words"),
    [
        ('{"a": [1, {"b": "ü"}]}', "application/json", "json", '"b": "ü"'),
        ('{"a": 1}', "text/html", "json", '"a": 1'),
        ("{broken", "application/json", "json", "{broken"),
        ("just\r\ntext", "text/plain", "text", "just\ntext"),
        ("a: 1\n", "application/yaml", "text", "a: 1"),
        ("<html><body><p>short</p></body></html>", "", "html", "short"),
        ("a\u202eb\x1b[31mc\u200b", "text/plain", "text", "abc"),
        ("", "text/plain", "text", ""),
    ],
)
async def test_the_content_decides_what_a_page_is(
    body: str, kind: str, expected: str, words: str
) -> None:
    page = await read(reply(body, kind))
    assert (page.kind, words in page.text) == (expected, True)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (reply(bytes(range(256)) * 200), "it is not text, although it says text/html"),
        (reply(b"\x89PNG\r\n", "image/png"), "it is image/png, which has no text"),
        (reply(b"x", "text/html", "content-encoding: br"), "packed as 'br'"),
        (reply(b"x", "text/html", "content-encoding: gzip, gzip"), "packed as"),
        (reply(b"x", "text/html", "content-encoding: gzip"), "answer is incomplete"),
        (reply(b"xxxxxx", "text/html", "content-encoding: gzip"), "cannot be unpacked"),
        (
            reply(gzip.compress(b"\0" * (11 * 2**20)), "text/html", "content-encoding: gzip"),
            "unpacked answer has more than 10,485,760 bytes",
        ),
        (b"HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n", "answers 404 Not Found"),
        (
            b"HTTP/1.1 429 Slow\r\nretry-after: Wed, 21 Oct 2026 07:28:00 GMT\r\n"
            b"content-length: 0\r\n\r\n",
            "it asks to wait: Wed, 21 Oct 2026",
        ),
        (b"SSH-2.0-OpenSSH\r\n", "the connection failed"),
        (b"%PDF-1.4 but nothing else", "the connection failed"),
        (reply(b"%PDF-1.4 but nothing else"), "the PDF file cannot be read"),
    ],
)
async def test_bad_answers_end_in_a_clear_word(answer: bytes, words: str) -> None:
    assert words in await failure(answer)


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("file:///etc/passwd", "it redirects to a file: address"),
        ("http://169.254.169.254/latest/meta-data/", "169.254.169.254 is not a public address"),
        ("http://me:pw@example.com/", "redirects to an address with a user"),
        ("{self}/docs/page", "it redirects more than 5 times"),
        ("http://[::ffff:127.0.0.1]:1/", "is not a public address"),
        ("gopher://example.com/", "it redirects to a gopher: address"),
    ],
)
async def test_redirects_lead_nowhere_else(target: str, words: str) -> None:
    answer = f"HTTP/1.1 302 Found\r\nlocation: {target}\r\ncontent-length: 0\r\n\r\n"
    assert words in await failure(answer.encode())


async def test_a_page_cannot_redirect_to_another_address_of_the_operator() -> None:
    async with serving(reply("inner", "text/plain")) as inner:
        location = f"location: {inner.url}/\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
        async with serving(f"HTTP/1.1 302 Found\r\n{location}".encode()) as outer:
            reader = PageReader(guard_for([inner.url, outer.url]))
            assert (await reader.read(f"{inner.url}/", render=False)).text == "inner"
            with pytest.raises(ToolError, match="is not a public address"):
                await reader.read(f"{outer.url}/", render=False)
        assert len(inner.heads) == 1


async def test_a_private_address_is_only_read_when_a_setting_names_it() -> None:
    async with serving(reply("inner")) as server:
        with pytest.raises(ToolError, match=r"config set tools\.private_addresses"):
            await PageReader().read(server.url, render=False)
        assert server.heads == []
        assert PageReader(guard_for([server.url])).preview(server.url, render=False).configured
        assert not PageReader().preview(server.url, render=False).configured


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("file:///etc/passwd", "only http and https"),
        ("javascript:alert(1)", "only http and https"),
        ("example.com", "only http and https"),
        ("http://me@example.com/", "user or a password"),
        ("http://example.com@169.254.169.254/", "user or a password"),
        ("http://good.example\\@evil.example/", "is no address"),
        ("http://exa mple.com/", "is no address"),
        ("http://", "names no host"),
        ("http://host:99999/", "is no address"),
        ("http://a..b/", "is no name of a host"),
        ("", "is no address"),
        ("http://x/" + "a" * 5000, "is no address"),
    ],
)
def test_addresses_that_are_not_read(url: str, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        normalize_url(url)


def test_the_host_is_judged_in_the_form_in_which_it_is_asked() -> None:
    assert normalize_url("HTTP://Bücher.Example:8080/a?b=ü#c") == (
        "http://xn--bcher-kva.example:8080/a?b=ü"
    )
    assert normalize_url("http://раураl.com/").startswith("http://xn--")
    assert normalize_url("http://127。0。0。1/") == "http://127.0.0.1/"
    assert normalize_url("http://[::1]:80/") == "http://[::1]:80/"


async def test_thirty_megabytes_and_endless_chunks_are_cut_off() -> None:
    large = b"HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: 31457280\r\n\r\n"
    assert "more than 10,485,760 bytes" in await failure(large, endless=b"x" * 2**20)
    chunked = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n"
    chunk = b"10000\r\n" + b"y" * 0x10000 + b"\r\n"
    assert "more than 10,485,760 bytes" in await failure(chunked, endless=chunk)
    limits = HttpLimits(timeout_s=5, total_timeout_s=1.0, max_answer_bytes=10**9, max_redirects=5)
    slow = await failure(chunked, endless=b"1\r\nz\r\n", limits=limits)
    assert "no answer within 1 s" in slow


async def test_a_million_nested_tags_are_read() -> None:
    body = "<div>" * 1_000_000 + "deep down"
    page = await read(reply(f"<html><body>{body}</body></html>"))
    assert page.text == "deep down"


@pytest.mark.parametrize(
    "trap",
    [
        *("<a", "<a ", "<!--", "<!", "<![", "<?", "</", "&#", "<a b='", '<a b="x', "<script>"),
        *("<style><", "<title>", "<a>", "<b><p>", "<table>", "<select>", "<!--->", "<td>", "[x]("),
    ],
)
def test_broken_markup_is_read_in_time_that_grows_with_its_size(trap: str) -> None:
    """Without care the standard parser takes minutes for some of these."""
    html = f"<html><body><p>before</p>{trap * (100_000 // len(trap))}"
    assert "before" in read_outline(html, "https://a.example/", "").text


async def test_a_page_of_scripts_only_says_so() -> None:
    page = await read(reply("<html><body><script>app()</script><noscript>no</noscript></body>"))
    assert page.text in ("", "no")
    assert "render=true" in page.notes[-1]


def test_a_large_page_is_read_by_the_standard_parser() -> None:
    page = read_html(PAGE, "https://a.example/", max_chars=1000)
    assert "connection number 7" in page.text
    assert "too large" in page.notes[0]


def make_pdf(*texts: str) -> bytes:
    writer = PdfWriter()
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    for text in texts:
        page = writer.add_blank_page(200, 200)
        page[NameObject("/Resources")] = DictionaryObject(
            {NameObject("/Font"): DictionaryObject({NameObject("/F1"): font})}
        )
        stream = DecodedStreamObject()
        stream.set_data(f"BT /F1 12 Tf 10 100 Td ({text}) Tj ET".encode())
        page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_metadata({"/Title": "Manual"})
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


async def test_a_pdf_file_has_the_text_of_its_pages() -> None:
    body = make_pdf("first page", "second page", "third page")
    page = await read(reply(body, "application/octet-stream"))
    assert (page.kind, page.title) == ("pdf", "Manual")
    assert page.text.split() == ["first", "page", "second", "page", "third", "page"]
    cut = read_pdf(body, "https://a.example/", max_pages=2)
    assert "third" not in cut.text
    assert cut.notes == ("only the first 2 of 3 pages were read",)
    assert "its pages may be pictures" in read_pdf(make_pdf(""), "https://a.example/").notes[0]


async def test_firecrawl_renders_a_public_page_and_is_told_no_private_one() -> None:
    standin = SearchStandin()
    async with standin.serving():
        reader = PageReader(renderer=FirecrawlRenderer(standin.url, KEY))
        shown = reader.preview("https://93.184.215.14/app", render=True)
        assert (shown.method, shown.url) == ("POST", f"{standin.url}/v2/scrape")
        assert json.loads(shown.body)["url"] == "https://93.184.215.14/app"
        page = await reader.read("https://93.184.215.14/app", render=True)
        assert (page.url, page.text) == ("https://example.com/app", "made by a script")
        with pytest.raises(ToolError, match="it is not given to a service"):
            await reader.read("http://10.0.0.1/secret", render=True)
        assert standin.asked == ["scrape"]
        with pytest.raises(ToolError, match="FIRECRAWL_API_KEY"):
            await PageReader().read("https://example.com/", render=True)
    assert standin.problems == []
