"""Scripts in files: demos and replays."""

from pathlib import Path

import pytest

from hermes.core.errors import PermanentModelError, SettingsError
from hermes.core.messages import Completion, CompletionDelta, Message, ToolCall, Usage
from hermes.models.open import ModelConnections, open_model
from hermes.models.settings import ModelSettings

pytestmark = pytest.mark.anyio

ASK = [Message(role="user", text="hi")]


async def test_a_file_of_messages_is_replayed(tmp_path: Path) -> None:
    path = tmp_path / "demo.jsonl"
    path.write_text(
        "# a short one\n\n"
        '{"text": "I  look.\\n", "calls": [{"id": "a", "name": "ls", "arguments": {"n": 1}}]}\n'
        '{"message": {"role": "assistant", "text": "Done."}, "usage": {"input_tokens": 5}}\n'
    )
    model = open_model(f"scripted:{path}", ModelSettings(), {}, ModelConnections())
    items = [item async for item in model.stream(ASK)]  # type: ignore[attr-defined]
    assert (
        "".join(item.text for item in items[:-1] if isinstance(item, CompletionDelta))
        == "I  look.\n"
    )
    assert items[-1].message.calls == (ToolCall("a", "ls", {"n": 1}),)
    assert items[-1].finish == "calls"
    assert await model.complete(ASK) == Completion(
        message=Message(role="assistant", text="Done."), usage=Usage(5)
    )
    with pytest.raises(PermanentModelError, match="no more replies"):
        await model.complete(ASK)


@pytest.mark.parametrize("line", ["nonsense", "[]", '{"text": 7}', '{"message": {}}'])
def test_a_line_that_is_no_reply_is_named(tmp_path: Path, line: str) -> None:
    path = tmp_path / "demo.jsonl"
    path.write_text(f'{{"text": "ok"}}\n{line}\n')
    with pytest.raises(SettingsError, match=r"demo\.jsonl:2"):
        open_model(f"scripted:{path}", ModelSettings(), {}, ModelConnections())


def test_a_script_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        open_model(f"scripted:{tmp_path}/none.jsonl", ModelSettings(), {}, ModelConnections())
