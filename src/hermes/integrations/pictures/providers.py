"""Draws pictures at OpenAI-compatible servers, at fal and at Gemini.

Each provider answers with bytes. Keys are sent only to the configured address.
"""

import base64
import binascii
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol
from urllib.parse import urlsplit

import anyio

from hermes.core.errors import ToolError
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Value
from hermes.plumbing.addresses import AddressGuard, guard_for
from hermes.plumbing.http_client import HttpAnswer, HttpError, HttpLimits, send_http_request

MAX_ANSWER_BYTES = 64 * 2**20
MAX_PICTURE_FILE_BYTES = 20 * 2**20
REQUEST_TIMEOUT_S = 180.0
POLL_PAUSE_S = 1.0
MAX_POLLS = 180


class ImageEndpoint(Value, kw_only=True, frozen=True):
    """Where pictures are drawn, by which model, and what one costs."""

    url: str
    model: str
    key: str = ""
    key_variable: str = ""
    price_usd: float | None = None
    poll_pause_s: float = POLL_PAUSE_S


class DrawsPictures(Protocol):
    """A provider of pictures. Raises `ToolError`."""

    async def draw(self, prompt: str, size: str, count: int) -> list[bytes]: ...


class _ImageClient:
    """Sends requests to one provider and reads its answers."""

    def __init__(self, name: str, endpoint: ImageEndpoint, headers: Mapping[str, str]) -> None:
        self.name, self.endpoint = name, endpoint
        self._headers = {"content-type": "application/json", **headers}
        self._guard = guard_for([endpoint.url])

    async def call(self, method: str, url: str, body: Mapping[str, Any] | None = None) -> Any:
        """The JSON of the answer; the key is only sent to the configured address."""
        if _origin(url) != _origin(self.endpoint.url):
            raise ToolError(f"{self.name} points to {_origin(url)}: the key is not sent there")
        content = None if body is None else json.dumps(body).encode()
        answer = await self._send(method, url, self._headers, content, MAX_ANSWER_BYTES)
        try:
            return json.loads(answer.body)
        except (ValueError, RecursionError) as error:
            raise ToolError(f"{self.name} answered with something that is not JSON") from error

    async def download(self, url: str) -> bytes:
        """A picture that the answer names by its address; no key is sent."""
        if url.startswith("data:"):
            return decode_base64(url.partition("base64,")[2], self.name)
        if not url.startswith(("http://", "https://")):
            raise ToolError(f"{self.name} names no address of a picture")
        return (await self._send("GET", url, {}, None, MAX_PICTURE_FILE_BYTES)).body

    async def _send(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes | None, size: int
    ) -> HttpAnswer:
        limits = HttpLimits(
            timeout_s=REQUEST_TIMEOUT_S,
            total_timeout_s=REQUEST_TIMEOUT_S,
            max_answer_bytes=size,
            max_redirects=3 if not headers else 0,
        )
        guard: AddressGuard = self._guard
        try:
            answer = await send_http_request(
                method, url, limits, headers=headers, body=body, proxies=False, guard=guard
            )
        except HttpError as error:
            raise ToolError(f"{self.name} at {_origin(url)}: {error}") from error
        if answer.status >= 300:
            raise ToolError(self._problem(answer))
        return answer

    def _problem(self, answer: HttpAnswer) -> str:
        text = visible_line(answer.body.decode("utf-8", "replace"), 300)
        if self.endpoint.key:
            text = text.replace(self.endpoint.key, "[key]")
        hint = ""
        if answer.status in (401, 403):
            hint = f"; is the key {self.endpoint.key_variable} right?"
        elif answer.status == 402:
            hint = "; the account must be paid"
        elif answer.status == 429:
            hint = (
                f"; it asks to wait {answer.retry_after}" if answer.retry_after else "; try later"
            )
        return f"{self.name} answered {answer.status} {text}{hint}"


class OpenAIImages:
    """`/images/generations` of OpenAI, and of servers that speak like it."""

    _SIZES: Mapping[str, str] = {
        "square": "1024x1024",
        "landscape": "1536x1024",
        "portrait": "1024x1536",
    }

    def __init__(self, endpoint: ImageEndpoint) -> None:
        headers = {"authorization": f"Bearer {endpoint.key}"} if endpoint.key else {}
        self._client = _ImageClient("openai", endpoint, headers)

    async def draw(self, prompt: str, size: str, count: int) -> list[bytes]:
        endpoint = self._client.endpoint
        body = {
            "model": endpoint.model,
            "prompt": prompt,
            "n": count,
            "size": self._SIZES[size],
        }
        answer = await self._client.call("POST", f"{_base(endpoint)}/images/generations", body)
        found = []
        for item in _items(answer, "data"):
            if isinstance(coded := item.get("b64_json"), str):
                found.append(decode_base64(coded, "openai"))
            elif isinstance(url := item.get("url"), str):
                found.append(await self._client.download(url))
        return _some(found, "openai")


class FalImages:
    """The queue of fal: a request is put into it, its state is asked for, its answer fetched."""

    _SIZES: Mapping[str, str] = {
        "square": "square_hd",
        "landscape": "landscape_4_3",
        "portrait": "portrait_4_3",
    }

    def __init__(self, endpoint: ImageEndpoint) -> None:
        headers = {"authorization": f"Key {endpoint.key}"}
        self._client = _ImageClient("fal", endpoint, headers)

    async def draw(self, prompt: str, size: str, count: int) -> list[bytes]:
        endpoint = self._client.endpoint
        body = {"prompt": prompt, "image_size": self._SIZES[size], "num_images": count}
        queued = await self._client.call("POST", f"{_base(endpoint)}/{endpoint.model}", body)
        status_url, response_url = _text(queued, "status_url"), _text(queued, "response_url")
        await self._wait(status_url)
        answer = await self._client.call("GET", response_url)
        urls = [item.get("url") for item in _items(answer, "images")]
        found = [await self._client.download(url) for url in urls if isinstance(url, str)]
        return _some(found, "fal")

    async def _wait(self, status_url: str) -> None:
        for _ in range(MAX_POLLS):
            state = await self._client.call("GET", status_url)
            status = state.get("status") if isinstance(state, dict) else None
            if status == "COMPLETED":
                if reason := state.get("error"):
                    raise ToolError(f"fal could not draw it: {visible_line(str(reason), 300)}")
                return
            if status not in ("IN_QUEUE", "IN_PROGRESS"):
                raise ToolError(f"fal answered with the state {visible_line(str(status), 60)}")
            await anyio.sleep(self._client.endpoint.poll_pause_s)
        raise ToolError(f"fal did not finish within {MAX_POLLS} looks at its queue")


class GeminiImages:
    """`generateContent` of a Gemini model that draws; one request for each picture."""

    _RATIOS: Mapping[str, str] = {"square": "1:1", "landscape": "4:3", "portrait": "3:4"}

    def __init__(self, endpoint: ImageEndpoint) -> None:
        self._client = _ImageClient("gemini", endpoint, {"x-goog-api-key": endpoint.key})

    async def draw(self, prompt: str, size: str, count: int) -> list[bytes]:
        return [await self._draw_one(prompt, size) for _ in range(count)]

    async def _draw_one(self, prompt: str, size: str) -> bytes:
        endpoint = self._client.endpoint
        body = {
            "contents": [{"parts": [{"text": prompt}]}],
            "generationConfig": {
                "responseModalities": ["IMAGE"],
                "imageConfig": {"aspectRatio": self._RATIOS[size]},
            },
        }
        url = f"{_base(endpoint)}/models/{endpoint.model}:generateContent"
        answer = await self._client.call("POST", url, body)
        for candidate in _items(answer, "candidates"):
            content = candidate.get("content")
            for part in _items(content, "parts") if isinstance(content, dict) else ():
                inline = part.get("inlineData")
                if isinstance(inline, dict) and isinstance(inline.get("data"), str):
                    return decode_base64(inline["data"], "gemini")
        feedback = answer.get("promptFeedback") if isinstance(answer, dict) else None
        reason = f": {visible_line(json.dumps(feedback), 200)}" if feedback else ""
        raise ToolError(f"gemini drew nothing{reason}")


PROVIDERS: Mapping[str, Callable[[ImageEndpoint], DrawsPictures]] = {
    "openai": OpenAIImages,
    "fal": FalImages,
    "gemini": GeminiImages,
}


def decode_base64(text: str, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(f"{name} sent a picture that is not base64") from error


def _items(answer: Any, key: str) -> list[dict[str, Any]]:
    found = answer.get(key) if isinstance(answer, dict) else None
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _text(answer: Any, key: str) -> str:
    found = answer.get(key) if isinstance(answer, dict) else None
    if not isinstance(found, str):
        raise ToolError(f"the answer lacks {key}")
    return found


def _some(found: list[bytes], name: str) -> list[bytes]:
    if not found:
        raise ToolError(f"{name} drew nothing")
    return found


def _base(endpoint: ImageEndpoint) -> str:
    return endpoint.url.rstrip("/")


def _origin(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}".lower()
