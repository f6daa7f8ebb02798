"""Logins at MCP servers, in `<home>/mcp/<server>/credentials.json`: tokens, and what renews them.

The file is private, and its name is one that the policy takes for a secret. A login belongs to the
address that it was made for: to another one it is never sent.
"""

import shutil
import time
from pathlib import Path
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import Value
from hermes.integrations.mcp.pins import check_server_name
from hermes.plumbing.files import PRIVATE_MODE, write_atomically

_SECRET_TOKENS = ("access_token", "refresh_token")
_MIN_SECRET_CHARS = 8


class StoredLogin(Value, kw_only=True, frozen=True):
    """The tokens of one server, as its authorization server gave them."""

    url: str
    """The address of the MCP server that they are for."""
    issuer: str = ""
    """Who gave them."""
    tokens: dict[str, Any] = {}
    expires_at: float | None = None
    """In seconds of the Unix clock; None when it is unknown."""
    client: dict[str, Any] = {}
    """How we are registered there."""
    metadata: dict[str, Any] = {}
    """The endpoints of the authorization server."""
    format: int = 1

    @property
    def can_be_used(self) -> bool:
        """Whether it is still valid, or can be renewed without a person."""
        valid = self.expires_at is None or time.time() < self.expires_at
        return valid or bool(self.tokens.get("refresh_token"))

    @property
    def secrets(self) -> dict[str, str]:
        found = {name: self.tokens.get(name) for name in _SECRET_TOKENS}
        found["client_secret"] = self.client.get("client_secret")
        return {
            name: value
            for name, value in found.items()
            if isinstance(value, str) and len(value) >= _MIN_SECRET_CHARS
        }


class LoginStore:
    """The logins of one home. Raises `SettingsError`."""

    def __init__(self, home: Path) -> None:
        self._folder = home / "mcp"

    def load(self, server: str, url: str) -> StoredLogin | None:
        """None without a login for this address."""
        path = self._path(server)
        try:
            login = msgspec.json.decode(path.read_bytes(), type=StoredLogin)
        except FileNotFoundError:
            return None
        except (OSError, msgspec.DecodeError, RecursionError) as error:
            raise SettingsError(
                f"{path} cannot be read: {error}; log in again with `hermes mcp login {server}`"
            ) from error
        return login if login.url == url and login.format == 1 else None

    def save(self, server: str, login: StoredLogin) -> None:
        path = self._path(server)
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(path, msgspec.json.encode(login), mode=PRIVATE_MODE, keep_mode=False)
        except OSError as error:
            raise SettingsError(
                f"the login at {server} was not written, and the old one stays: {error.strerror}"
            ) from error

    def exists(self, server: str) -> bool:
        """Return whether tokens are kept, even ones that cannot be read."""
        return self._path(server).exists()

    def remove(self, server: str) -> None:
        shutil.rmtree(self._path(server).parent, ignore_errors=True)

    def secrets(self) -> dict[str, str]:
        """Every token that is kept, by a name that may be shown."""
        found: dict[str, str] = {}
        for path in self._folder.glob("*/credentials.json"):
            try:
                login = msgspec.json.decode(path.read_bytes(), type=StoredLogin)
            except (OSError, msgspec.DecodeError, RecursionError):
                continue
            found |= {f"{path.parent.name}_{key}": text for key, text in login.secrets.items()}
        return found

    def _path(self, server: str) -> Path:
        return self._folder / check_server_name(server) / "credentials.json"
