"""No route of a page leads to an address that is not public and not configured."""

import socket
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from browser_pages import PageServer, SharedBrowser, needs_chromium, page_server, shared_browser

from hermes.core.errors import ToolError
from hermes.integrations.browser.address_checks import open_address_proxy
from hermes.plumbing.addresses import AddressGuard, guard_for_addresses

pytestmark = [pytest.mark.command, needs_chromium]

SPELLINGS = (
    *("127.0.0.1", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "0", "localhost"),
    *("localhost.", "[::1]", "[::ffff:127.0.0.1]", "[::]", "127.0.0.1.", "①②⑦.0.0.1"),
)
"""Ways to write this host; the server of the secret listens on it."""


@pytest.fixture(scope="module")
def secret_server() -> Iterator[PageServer]:
    """A server on this host that nobody configured."""
    pages = {"/secret": "<h1>top secret</h1>", "/secret.js": "document.title='top secret'"}
    with page_server(pages) as server:
        yield server


@pytest.fixture(scope="module")
def browser(
    tmp_path_factory: pytest.TempPathFactory, secret_server: PageServer
) -> Iterator[SharedBrowser]:
    there = secret_server.address
    routes = {
        "/frame": f"<iframe src={there}/secret></iframe><h1>Frame</h1>",
        "/image": f"<img src={there}/secret.png><script src={there}/secret.js></script>",
        "/fetch": f"""<h1 id=out>waiting</h1><script>fetch('{there}/secret')
            .then(()=>out.textContent='reached',()=>out.textContent='refused')</script>""",
        "/socket": f"""<h1 id=out>waiting</h1><script>
            const socket = new WebSocket('{there.replace("http", "ws")}/secret');
            socket.onopen=()=>out.textContent='reached';
            socket.onerror=()=>out.textContent='refused';</script>""",
        "/worker": """<h1 id=out>waiting</h1><script>const worker = new Worker('/worker.js');
            worker.onmessage=(e)=>out.textContent=e.data</script>""",
        "/worker.js": f"""fetch('{there}/secret', {{mode: 'no-cors'}})
            .then(()=>postMessage('reached'),()=>postMessage('refused'))""",
        "/location": f"<h1>Here</h1><button onclick=\"location='{there}/secret'\">Go</button>",
        "/form": f"<form action={there}/secret method=get><button>Send</button></form>",
        "/refresh": f"<h1>Here</h1><meta http-equiv=refresh content='0;url={there}/secret'>",
        "/beacon": f"""<link rel=prefetch href={there}/secret><link rel=preconnect href={there}>
            <h1>Beacon</h1><script>navigator.sendBeacon('{there}/secret', 'x');
            new EventSource('{there}/secret')</script>""",
        "/file": "<iframe src=file:///etc/passwd></iframe><a href=file:///etc/passwd>Read</a>",
    }
    folder = Path(tmp_path_factory.mktemp("addresses"))
    with page_server(routes) as server, shared_browser(folder, server) as made:
        yield made


@pytest.fixture(autouse=True)
def nothing_arrives(secret_server: PageServer) -> Iterator[None]:
    yield
    assert [path for path in secret_server.asked if "secret" in path] == []


@pytest.mark.parametrize("path", ["/frame", "/image", "/beacon"])
def test_what_a_page_loads_is_checked(browser: SharedBrowser, path: str) -> None:
    first = browser.open(path)

    async def noted() -> str:
        """Some requests are sent after the page has loaded."""
        shown = first
        with anyio.fail_after(60):
            while "refused: " not in shown:
                shown = await browser.session.snapshot()
        return shown

    assert "is not a public address" in browser.portal.call(noted)
    assert "top secret" not in browser.run(browser.session.snapshot)


@pytest.mark.parametrize("path", ["/fetch", "/socket", "/worker"])
def test_what_scripts_workers_and_sockets_ask_for_is_checked(
    browser: SharedBrowser, path: str
) -> None:
    browser.open(path)

    async def outcome() -> str:
        with anyio.fail_after(60):
            while "waiting" in (shown := await browser.session.snapshot()):
                pass
        return shown

    shown = browser.portal.call(outcome)
    assert 'heading "refused"' in shown


@pytest.mark.parametrize(("path", "words"), [("/location", '"Go"'), ("/form", '"Send"')])
def test_where_a_page_goes_is_checked(browser: SharedBrowser, path: str, words: str) -> None:
    shown = browser.click(browser.open(path), words)
    assert "is not a public address" in shown
    assert "top secret" not in shown


def test_a_redirect_and_a_refresh_are_checked(
    browser: SharedBrowser, secret_server: PageServer
) -> None:
    with pytest.raises(ToolError, match="is not a public address"):
        browser.open(f"/to/{secret_server.address}/secret")
    browser.open("/refresh")
    assert "top secret" not in browser.run(browser.session.snapshot)


@pytest.mark.parametrize("host", SPELLINGS)
def test_every_spelling_of_this_host_is_refused(
    browser: SharedBrowser, secret_server: PageServer, host: str
) -> None:
    with pytest.raises(ToolError, match="not opened"):
        browser.run(browser.session.navigate, f"http://{host}:{secret_server.server_port}/secret")


@pytest.mark.parametrize(
    "address",
    [
        *("file:///etc/passwd", "chrome://version", "javascript:alert(1)", "data:text/html,x"),
        *("view-source:http://a.example", "ftp://a.example", "http://me:pw@a.example/", "http://"),
        *("http://169.254.169.254/latest", "http://[fd00:ec2::254]/", "http://100.64.0.1/"),
    ],
)
def test_other_addresses_are_refused(browser: SharedBrowser, address: str) -> None:
    with pytest.raises(ToolError, match="not opened"):
        browser.run(browser.session.navigate, address)


def test_a_word_that_is_no_address_is_refused_with_what_to_write(browser: SharedBrowser) -> None:
    with pytest.raises(ToolError, match="not an address, which begins with https://"):
        browser.run(browser.session.navigate, "nonsense")


def test_files_of_the_host_stay_unread(browser: SharedBrowser) -> None:
    shown = browser.open("/file")
    assert "root:" not in shown + browser.click(shown, '"Read"')


class _ChangingNames(AddressGuard, frozen=True):
    """Resolves a name to a public address first, and then to this host: as rebinding does."""

    seen: list[str] = []

    async def resolve(self, host: str, port: int) -> list[str]:
        self.seen.append(host)
        if len(self.seen) == 1:
            return ["192.0.2.1"]
        return await super().resolve("127.0.0.1" if host == "rebind.example" else host, port)


@pytest.mark.anyio
async def test_the_connection_is_checked_again_when_it_is_opened(
    secret_server: PageServer,
) -> None:
    guard = _ChangingNames(seen=[])
    await guard.resolve("rebind.example", secret_server.server_port)
    async with open_address_proxy(guard) as port:
        for method, target in (
            ("GET", f"http://rebind.example:{secret_server.server_port}/secret"),
            ("CONNECT", f"rebind.example:{secret_server.server_port}"),
        ):
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                await stream.send(f"{method} {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
                assert b" 403 " in await stream.receive()


@pytest.mark.anyio
@pytest.mark.parametrize(
    "data", [b"\r\n\r\n", b"GET\r\n\r\n", b"\0" * 70_000, b"GET file:/x\r\n\r\n"]
)
async def test_what_is_no_request_only_ends_its_connection(data: bytes) -> None:
    async with open_address_proxy(guard_for_addresses([])) as port:
        for _ in range(2):  # the second one finds the proxy alive
            with socket.create_connection(("127.0.0.1", port)) as plain:
                plain.close()
            async with await anyio.connect_tcp("127.0.0.1", port) as stream:
                try:
                    await stream.send(data)
                    while await stream.receive():
                        pass
                except (anyio.EndOfStream, anyio.BrokenResourceError):
                    pass


def test_a_configured_address_has_a_host_and_perhaps_a_port() -> None:
    guard = guard_for_addresses(["Wiki.Internal", "10.0.0.1:8080", "[::1]:90"])
    assert ("wiki.internal", 443) in guard.allowed
    assert ("wiki.internal", 80) in guard.allowed
    assert {("10.0.0.1", 8080), ("::1", 90)} <= guard.allowed
    for wrong in ("http://a", "a/b", "", "me@a"):
        with pytest.raises(ValueError, match="is not host:port"):
            guard_for_addresses([wrong])
