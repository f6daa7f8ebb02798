"""A conversation with pictures: the last ones are sent, and none of them can end it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from agent_setup import AgentSetup, call, calls, says

from hermes.agent.conversation import Conversation
from hermes.agent.settings import AgentSettings
from hermes.core.errors import ContextTooLong, PicturesRejected
from hermes.core.events import encode_event
from hermes.core.messages import Completion, LoadedPicture, Message, Picture, Risk, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.memory.artifacts import FileArtifacts
from hermes.models.message_format import pictures_of
from hermes.tools.declare import tool
from picture_samples import picture

pytestmark = pytest.mark.anyio
SCREEN = picture("PNG", (1280, 800))


@tool(risk=Risk.READ)
async def screenshot(context: ToolContext, what: str = "") -> str:
    """Take a screenshot."""
    await context.add_picture(SCREEN, f"screen {what}")
    return f"took {what}\n" + "the page shows a table of hosts\n" * 30


class Watcher:
    """A model that takes a number of screenshots, one a step, and then answers."""

    name = "watcher"

    def __init__(
        self,
        steps: int,
        *,
        sees: bool = True,
        window: int = 200_000,
        objects: Callable[[Sequence[Message], int], None] = lambda *_: None,
    ) -> None:
        self.steps, self.sees_pictures, self.window = steps, sees, window
        self._objects = objects
        self.requests: list[Sequence[Message]] = []
        self._taken = 0

    async def complete(
        self, messages: Sequence[Message], tools: Sequence[ToolSpec] = ()
    ) -> Completion:
        self.requests.append(messages)
        self._objects(messages, len(self.requests))
        if self._taken == self.steps:
            return Completion(message=says("done"))
        self._taken += 1
        return Completion(message=calls(call("screenshot", what=str(self._taken))))

    @property
    def sent(self) -> list[int]:
        """How many pictures each request had."""
        return [sum(len(_loaded(message)) for message in each) for each in self.requests]


def _loaded(message: Message) -> list[Picture]:
    return [each for each in pictures_of(message) if isinstance(each, LoadedPicture)]


def make_setup(model: Any, folder: Path, **settings: Any) -> AgentSetup:
    built = AgentSetup(
        model, more_tools=[screenshot], settings=AgentSettings(max_iterations=300, **settings)
    )
    built.artifacts = FileArtifacts(folder)  # type: ignore[assignment]
    return built


async def test_the_last_three_are_sent_and_older_ones_are_described(tmp_path: Path) -> None:
    model = Watcher(5)
    built = make_setup(model, tmp_path)
    chat = await Conversation.begin(built.dependencies, system="")
    assert await chat.say("look") == "done"
    assert model.sent == [0, 1, 2, 3, 3, 3]
    last = model.requests[-1]
    contents = [message.result.content for message in last if message.result is not None]
    assert "[picture: screen 1 (1280 × 800, png, artifact://" in contents[0]
    assert "picture" not in contents[4]
    (shown,) = _loaded(last[-1])
    assert isinstance(shown, LoadedPicture)
    assert shown.data.startswith(b"\x89PNG")


async def test_the_journal_holds_no_bytes_of_pictures(tmp_path: Path) -> None:
    built = make_setup(Watcher(2), tmp_path)
    chat = await Conversation.begin(built.dependencies, system="")
    await chat.say("look")
    assert len(SCREEN) > 2_000
    assert all(len(encode_event(event)) < 2_000 for event in built.journal.events)
    (first, _) = [event.result.pictures[0] for event in built.events("tool.finished")]
    assert (first.width, first.height, first.media) == (1280, 800, "image/png")
    assert first.bytes == len(await FileArtifacts(tmp_path).load_bytes(first.artifact))


async def test_a_model_that_does_not_see_gets_words(tmp_path: Path) -> None:
    model = Watcher(2, sees=False)
    chat = await Conversation.begin(make_setup(model, tmp_path).dependencies, system="")
    await chat.say("look")
    assert set(model.sent) == {0}
    assert "screen 2" in str(model.requests[-1][-1].result)


async def test_a_resumed_conversation_sends_the_same(tmp_path: Path) -> None:
    model = Watcher(4)
    built = make_setup(model, tmp_path)
    chat = await Conversation.begin(built.dependencies, system="")
    await chat.say("look")
    resumed = await Conversation.resume(built.dependencies, chat.run)
    await resumed.say("and now?")
    assert model.sent[-1] == 3


async def test_rejected_pictures_are_left_out_and_later_ones_are_sent_again(
    tmp_path: Path,
) -> None:
    def refuse(messages: Sequence[Message], number: int) -> None:
        if number == 4:
            raise PicturesRejected("image too large")

    model = Watcher(5, objects=refuse)
    built = make_setup(model, tmp_path)
    chat = await Conversation.begin(built.dependencies, system="")
    assert await chat.say("look") == "done"
    assert model.sent == [0, 1, 2, 3, 0, 1, 2]
    assert not built.events("context.compressed")


async def test_pictures_go_before_the_conversation_is_compressed(tmp_path: Path) -> None:
    refused = []

    def refuse(messages: Sequence[Message], number: int) -> None:
        if number in (4, 5):
            refused.append(sum(len(_loaded(message)) for message in messages))
            raise ContextTooLong("413")

    model = Watcher(5, objects=refuse)
    built = make_setup(model, tmp_path)
    chat = await Conversation.begin(built.dependencies, system="")
    assert await chat.say("look") == "done"
    assert refused == [3, 0]
    assert len(built.events("context.compressed")) == 1


@pytest.mark.parametrize("window", [6_000, 200_000])
async def test_two_hundred_screenshots_do_not_end_a_session(tmp_path: Path, window: int) -> None:
    """The provider takes no request with over 3 MB, and at times none with pictures."""

    def refuse(messages: Sequence[Message], number: int) -> None:
        sizes = [len(each.data) for message in messages for each in _loaded(message)]  # type: ignore[attr-defined]
        if sum(sizes) > 3_000_000 or (sizes and number % 17 == 0):
            raise PicturesRejected("request entity too large")

    model = Watcher(200, window=window, objects=refuse)
    built = make_setup(model, tmp_path)
    chat = await Conversation.begin(built.dependencies, system="")
    assert await chat.say("look") == "done"
    assert 1 <= max(model.sent) <= 3
    assert len(built.events("tool.finished")) == 200
    assert built.events("turn.ended")[-1].outcome == "answered"
    if window == 200_000:
        assert not built.events("context.compressed")
