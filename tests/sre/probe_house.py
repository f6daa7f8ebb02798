"""What the tests of probes share: this host as a place, a small web server, a policy."""

import os
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import anyio

from hermes.app.policy import open_policy
from hermes.core.actions import Policy
from hermes.environments.local import LocalEnvironment
from hermes.settings.load import load
from hermes.sre.probes.admission import admit_probes
from hermes.sre.probes.evaluation import ProbeVerdict, judge_probe
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_runner import KernelRefusal, run_probes
from hermes.sre.settings import ProbeSettings

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def this_host(folder: Path) -> LocalEnvironment:
    return LocalEnvironment(folder, {"PATH": PATH, "HOME": str(folder), "LANG": "C.UTF-8"})


async def look(folder: Path, probe: Probe, keep: str | None = None) -> ProbeVerdict:
    """One probe, asked once on this host, admitted and confined as the watch does it."""
    refused: list[KernelRefusal] = []
    async with this_host(folder) as here:
        admission = await admit_probes([probe], policy_at(folder), here)
        before = None if keep is None else {probe.name: keep}
        reading = (await run_probes(here, admission.probes, before, refused=refused))[probe.name]
    assert refused == []
    return judge_probe(probe, reading, (), ProbeSettings())


async def eventually(happened: Callable[[], Awaitable[bool]], seconds: float = 120.0) -> None:
    with anyio.fail_after(seconds):
        while True:
            if await happened():
                return
            await anyio.sleep(0.02)


def policy_at(folder: Path, chosen: str = "careful") -> Policy:
    variables = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    loaded = load(home=folder / "home", variables=variables, overrides={"policy.set": chosen})
    return open_policy(loaded, folder, isolated=False)


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


class Pages:
    """What the web server says; a test changes it while it runs."""

    def __init__(self) -> None:
        self.status = 200
        self.body = "all is well"
        self.asked: list[str] = []
        self.gate = threading.Event()
        """Cleared: nobody is answered."""
        self.gate.set()


@contextmanager
def web_server(pages: Pages, port: int = 0) -> Iterator[int]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            pages.gate.wait(20)
            pages.asked.append(self.path)
            data = pages.body.encode()
            self.send_response(pages.status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield server.server_port
    finally:
        pages.gate.set()
        server.shutdown()
        server.server_close()
        thread.join()
