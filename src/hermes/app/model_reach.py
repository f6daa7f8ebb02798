"""Whether the server of a model can be reached, for a greeting that must not wait."""

import time
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import anyio

from hermes.core.errors import HermesError
from hermes.models.reference import resolve
from hermes.settings.detect import ON_BOARD, WEIGHTS
from hermes.settings.load import Loaded

CONNECT_TIMEOUT_S = 3.0
REACH_CACHE_S = 60.0
PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


def is_bundled(name: str) -> bool:
    """The small weights of the extra `local`: they can talk, and cannot use tools."""
    found = find_spec(WEIGHTS)
    folders = (found.submodule_search_locations if found else None) or ()
    files = (file for folder in folders for file in Path(folder).glob("*.gguf"))
    return any(name == f"{ON_BOARD}{file.stem}" for file in files)


class ModelReach:
    """Whether the server of a model can be reached: asked in the background, kept for a minute.

    Only a connection is opened. It costs no tokens, and it does not prove that the key is valid.
    """

    def __init__(self, loaded: Loaded, name: str) -> None:
        self._loaded, self.name = loaded, name
        self._trouble: str | None = None
        self._asked_at = 0.0

    @property
    def words(self) -> str:
        """The name with what is known by now; for a greeting that must not wait."""
        if is_bundled(self.name):
            return f"{self.name} (bundled; it can only talk)"
        if not self._server():
            return self.name
        if self._trouble is None:
            return f"{self.name} (configured, not reached yet)"
        return f"{self.name} ({self._trouble or 'its server is reachable'})"

    async def trouble(self) -> str:
        """Why it cannot be reached; empty when its server accepts connections or has none."""
        server = self._server()
        if not server:
            return ""
        if self._trouble is None or time.monotonic() - self._asked_at > REACH_CACHE_S:
            self._trouble = await _connected(*server)
            self._asked_at = time.monotonic()
        return self._trouble

    def _server(self) -> tuple[str, int] | None:
        """None where nothing is to be connected to, or only a proxy could tell."""
        if any(self._loaded.secrets.get(name) for name in PROXIES):
            return None
        try:
            url = urlsplit(resolve(self.name, self._loaded.settings.model).provider.base_url)
        except HermesError:  # a scripted model, or one of an old conversation
            return None
        port = url.port or (443 if url.scheme == "https" else 80)
        return (url.hostname, port) if url.hostname else None


async def _connected(host: str, port: int) -> str:
    try:
        with anyio.fail_after(CONNECT_TIMEOUT_S):
            await (await anyio.connect_tcp(host, port)).aclose()
    except TimeoutError:
        return f"{host}:{port} did not answer within {CONNECT_TIMEOUT_S:g} s"
    except OSError as error:
        return f"{host}:{port} cannot be reached: {error}"
    return ""
