"""Calls of HTTP APIs with JSON, for platforms without a client library of their own."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self

import aiohttp

from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.hidden_secrets import hide_secrets

TOTAL_TIMEOUT_S = 60.0
MAX_ERROR_CHARS = 300
DEFAULT_WAIT_S = 5.0
"""Where a platform limits the rate and does not say for how long."""


class ApiRefusal(DeliveryError):
    """The platform answered that it will not do it."""

    def __init__(self, text: str, status: int, answer: Any, **kinds: Any) -> None:
        super().__init__(text, **kinds)
        self.status, self.answer = status, answer


class JsonApi:
    """`describe` makes a text of the body of a refusal, and `wait` finds seconds to wait in it."""

    def __init__(
        self,
        title: str,
        base_url: str,
        *,
        headers: Mapping[str, str] | None = None,
        secrets: Sequence[str] = (),
        token_advice: str = "",
        describe: Callable[[Any], str] = str,
        wait: Callable[[Any], float] | None = None,
    ) -> None:
        self._title, self.base_url = title, base_url.rstrip("/")
        self._headers, self._secrets = dict(headers or {}), secrets
        self._token_advice, self._describe, self._wait = token_advice, describe, wait

    async def __aenter__(self) -> Self:
        timeout = aiohttp.ClientTimeout(total=TOTAL_TIMEOUT_S)
        self.session = aiohttp.ClientSession(
            timeout=timeout, headers=self._headers, trust_env=True, read_bufsize=2**20
        )
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.session.close()

    async def call(self, method: str, path: str, payload: Any = None, **more: Any) -> Any:
        """The JSON of the answer, None without any. Raises `DeliveryError`, or `ApiRefusal`.

        `more` goes to aiohttp: `data`, `params`, `timeout`.
        """
        if payload is not None:
            more["json"] = payload
        try:
            async with self.session.request(
                method, self.base_url + path, allow_redirects=False, **more
            ) as response:
                return await self._read(response)
        except (aiohttp.ClientConnectorError, aiohttp.InvalidURL) as error:
            text = self._hide(f"{self._title} cannot be reached: {error}")
            raise DeliveryError(text) from None
        except (aiohttp.ClientError, TimeoutError, ValueError) as error:
            text = self._hide(f"{self._title}: {type(error).__name__}: {error}")
            raise DeliveryError(text, may_have_arrived=True) from None

    async def _read(self, response: aiohttp.ClientResponse) -> Any:
        body = await response.read()
        answer: Any = None
        if body and "json" in response.content_type:
            answer = await response.json(content_type=None)
        if 200 <= response.status < 300:
            return answer
        raise self._refusal(response, answer)

    def _refusal(self, response: aiohttp.ClientResponse, answer: Any) -> ApiRefusal:
        status, reason = response.status, self._describe(answer) if answer else ""
        text = f"{self._title}: {reason or response.reason or ''} ({status})"
        text = self._hide(text)[:MAX_ERROR_CHARS]
        if status == 429:
            asked = response.headers.get("Retry-After", "")
            wait_s = float(asked) if asked.replace(".", "", 1).isdigit() else 0.0
            wait_s = wait_s or (self._wait(answer) if self._wait and answer else 0.0)
            return ApiRefusal(text, status, answer, retry_after_s=wait_s or DEFAULT_WAIT_S)
        if status >= 500:
            return ApiRefusal(text, status, answer, may_have_arrived=True)
        if status == 401 and self._token_advice:
            text = f"{self._title} refused the token: {self._token_advice}"
        return ApiRefusal(text, status, answer, permanent=True)

    async def download(self, path: str, name: str, max_bytes: int, **more: Any) -> bytes:
        """Raises `DeliveryError`, also when it is larger."""
        data = bytearray()
        try:
            async with self.session.get(
                self.base_url + path, allow_redirects=False, **more
            ) as response:
                if response.status != 200:
                    raise self._refusal(response, None)
                async for piece in response.content.iter_chunked(65_536):
                    data += piece
                    if len(data) > max_bytes:
                        raise too_large(name, max_bytes)
        except (aiohttp.ClientError, TimeoutError) as error:
            text = f"{self._title}: {type(error).__name__}: {error}"
            raise DeliveryError(self._hide(text)) from None
        return bytes(data)

    def _hide(self, text: str) -> str:
        return hide_secrets(text, self._secrets)


def too_large(name: str, max_bytes: int) -> DeliveryError:
    return DeliveryError(f"{name} is larger than {max_bytes:,} bytes", permanent=True)


def channel_failed(error: DeliveryError) -> ChannelFailed:
    """The same, of a channel that cannot be opened or listened to."""
    return ChannelFailed(str(error), permanent=error.permanent)
