"""The embedded model for real: the small default weights, on this machine's cores."""

import struct
import subprocess
import sys
from pathlib import Path

import anyio
import pytest

from hermes.core.errors import ContextTooLong, PermanentModelError, SettingsError
from hermes.core.messages import Completion, CompletionDelta, Message, Risk, ToolSpec
from hermes.models.local import LocalModel, idle_core_count
from hermes.models.settings import LocalSettings

pytestmark = pytest.mark.anyio

LIST = ToolSpec(
    name="list_files",
    description="List the files in a folder.",
    parameters={
        "type": "object",
        "properties": {"folder": {"type": "string", "maxLength": 20}},
        "required": ["folder"],
        "additionalProperties": False,
    },
    risk=Risk.READ,
)
ASK = (
    Message(role="system", text="You are a helpful assistant."),
    Message(role="user", text="Which files are in /tmp?"),
)


# The beginning of an answer is enough: each token takes hundredths of a second of both cores.
SHORT_ANSWER_TOKENS = 16


@pytest.fixture(scope="module")
def model() -> LocalModel:
    return LocalModel(LocalSettings(context=1024), max_answer_tokens=SHORT_ANSWER_TOKENS)


async def test_it_answers_in_words(model: LocalModel) -> None:
    done = await model.complete(ASK)
    assert done.message.text and not done.message.calls
    assert done.usage.input_tokens > 10 and 0 < done.usage.output_tokens <= SHORT_ANSWER_TOKENS


async def test_with_tools_every_reply_is_a_known_call_or_an_answer() -> None:
    model = LocalModel(LocalSettings(context=1024), max_answer_tokens=60)  # a whole call
    done = await model.complete(ASK, [LIST])
    for call in done.message.calls:
        assert call.name == "list_files" and set(call.arguments) == {"folder"}
    assert done.message.calls or done.message.text


async def test_it_streams_what_it_then_says_as_a_whole(model: LocalModel) -> None:
    pieces = [piece async for piece in model.stream(ASK)]
    whole = pieces[-1]
    assert isinstance(whole, Completion)
    assert len(pieces) > 3
    shown = "".join(piece.text for piece in pieces if isinstance(piece, CompletionDelta))
    assert shown == whole.message.text
    assert whole.usage.output_tokens > 0


async def test_leaving_a_stream_frees_the_model_at_once(model: LocalModel) -> None:
    with anyio.fail_after(120):
        with anyio.move_on_after(5) as scope:
            async for _ in model.stream(ASK):
                scope.cancel()
                await anyio.lowlevel.checkpoint()
        assert scope.cancelled_caught
        assert (await model.complete(ASK)).message.text


async def test_what_does_not_fit_is_said_to_be_too_long(model: LocalModel) -> None:
    with pytest.raises(ContextTooLong, match=r"model\.local\.context"):
        await model.complete([Message(role="user", text="word " * 3000)])


async def test_a_damaged_file_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGUF" + b"\0" * 64)
    with pytest.raises(PermanentModelError, match=r"broken\.gguf"):
        await LocalModel(LocalSettings(path=str(broken))).complete(ASK)


def test_a_missing_file_is_an_error_before_anything_is_asked(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"model\.local\.path"):
        LocalModel(LocalSettings(path=str(tmp_path / "no.gguf")))


def test_threads_follow_the_load() -> None:
    assert [idle_core_count(8, load) for load in (0.0, 2.6, 7.4, 30.0)] == [8, 5, 1, 1]


def test_the_engine_is_loaded_at_the_first_request_only() -> None:
    """A watch opens its model and may never ask it; the engine takes 10 MB."""
    program = (
        "import sys\n"
        "from hermes.models.local import LocalModel\n"
        "from hermes.models.settings import LocalSettings\n"
        "LocalModel(LocalSettings(context=1024))\n"
        "print('xllamacpp' in sys.modules)"
    )
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)
    assert printed == "False\n"


def write_adapter(path: Path, *, rank: int = 4, width: int = 576) -> None:
    """A LoRA in GGUF form that disturbs the first layer's queries: real, small and useless."""

    def text(value: str) -> bytes:
        return struct.pack("<Q", len(value)) + value.encode()

    pairs = {
        "general.type": "adapter",
        "general.architecture": "llama",
        "adapter.type": "lora",
    }
    head = b"".join(text(key) + struct.pack("<I", 8) + text(value) for key, value in pairs.items())
    head += text("adapter.lora.alpha") + struct.pack("<If", 6, 8.0)
    shapes = {"lora_a": (width, rank), "lora_b": (rank, width)}
    offset, data = 0, b""
    for name, (first, second) in shapes.items():
        head += text(f"blk.0.attn_q.weight.{name}")
        head += struct.pack("<IQQIQ", 2, first, second, 0, offset)
        values = [((i * 37) % 11 - 5) / 3 for i in range(first * second)]
        data += struct.pack(f"<{len(values)}f", *values)
        offset = len(data)
    start = b"GGUF" + struct.pack("<IQQ", 3, len(shapes), len(pairs) + 1) + head
    path.write_bytes(start + b"\0" * (-len(start) % 32) + data)


async def test_an_adapter_changes_what_is_said_as_far_as_its_scale(
    model: LocalModel, tmp_path: Path
) -> None:
    adapter = tmp_path / "odd.gguf"
    write_adapter(adapter)
    plain = (await model.complete(ASK)).message.text
    said = []
    for scale in (0.0, 1.0):
        settings = LocalSettings(context=1024, adapter=str(adapter), adapter_scale=scale)
        adapted = LocalModel(settings, max_answer_tokens=SHORT_ANSWER_TOKENS)
        said.append((await adapted.complete(ASK)).message.text)
    assert said[0] == plain
    assert said[1] != plain
