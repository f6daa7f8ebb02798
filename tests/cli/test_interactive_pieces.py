"""The parts of the chat that need no terminal: greeting, commands, files, faces."""

import json
from pathlib import Path

import anyio
import pytest

from hermes.cli.interactive.banner import banner
from hermes.cli.interactive.commands import COMMANDS, find, nearest
from hermes.cli.interactive.markdown import set_block
from hermes.cli.interactive.painting import paint
from hermes.cli.interactive.saving import save_conversation
from hermes.cli.interactive.shapes import Facts
from hermes.cli.interactive.spinner import spin
from hermes.cli.render import Transcript
from hermes.cli.render_ink import Ink
from hermes.cli.render_safe import cells
from hermes.cli.render_watch import Watcher
from hermes.cli.render_writing import Piece
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.runs import MessageAdded, TurnEnded, TurnStarted
from hermes.core.messages import Delta, Message, ToolCall, ToolResult
from hermes.memory.in_memory import InMemoryJournal

RICH = Facts(
    version="1.2.3",
    model="openrouter:some-vendor/some-model-with-a-very-long-name-indeed",
    directory="/srv/projects/日本語/deep/deeper/deepest/of/all/the/folders",
    place="docker (python:3.12)",
    tools=tuple((f"tool_{number:02}", "does") for number in range(40)),
    skills=(("restart-nginx", "how to"),),
)


@pytest.mark.parametrize("width", [40, 80, 200])
@pytest.mark.parametrize("facts", [RICH, Facts()])
def test_the_banner_fits_its_terminal(width: int, facts: Facts) -> None:
    rows = banner(facts, run="run-20300101-000000-abcdef", width=width, ink=Ink()).split("\n")
    assert all(cells(row) <= width for row in rows)
    assert any("run-20300101-000000-abcdef" in row for row in rows)


def test_the_banner_counts_what_it_cannot_name() -> None:
    shown = banner(RICH, run="r", width=40, ink=Ink())
    assert "40: tool_00" in shown
    assert " more" in shown
    assert "restart-nginx" in shown


def test_a_terminal_that_tells_no_width_gets_a_banner_of_eighty_columns() -> None:
    assert banner(RICH, run="r", width=0, ink=Ink()) == banner(RICH, run="r", width=80, ink=Ink())


def test_without_colour_there_is_not_one_escape() -> None:
    assert "\x1b" not in banner(RICH, run="r", width=80, ink=Ink())
    assert "\x1b" in banner(RICH, run="r", width=80, ink=Ink(colour=True))


def test_what_a_skill_is_called_cannot_steer_the_terminal() -> None:
    facts = Facts(skills=(("\x1b[2Jevil", ""),), model="m\x1b]0;t\x07")
    assert "\x1b" not in banner(facts, run="r", width=80, ink=Ink())


def test_every_command_of_the_chat_is_in_the_table_once() -> None:
    names = [word for each in COMMANDS for word in (each.name, *each.aliases)]
    assert len(names) == len(set(names))
    wanted = "help clear new model tools skills compress usage undo retry save personality status"
    assert set(f"{wanted} history resume title stop verbose exit quit".split()) <= set(names)
    assert all(each.help for each in COMMANDS)


def test_an_alias_finds_its_command() -> None:
    assert find("quit") is find("exit")
    assert find("nothing") is None


@pytest.mark.parametrize(
    ("typed", "meant"), [("modle", "model"), ("hist", "history"), ("udno", "undo"), ("xyzzy", "")]
)
def test_the_nearest_command_is_suggested(typed: str, meant: str) -> None:
    assert nearest(typed) == meant


MESSAGES = (
    Message(role="user", text="what is ```here```?"),
    Message(role="assistant", calls=(ToolCall("1", "look", {"path": "."}),)),
    Message(role="tool", result=ToolResult(call_id="1", content="```\nfence\n```")),
    Message(role="assistant", text="a fence"),
)


def test_a_conversation_is_saved_as_markdown_or_json_by_its_extension(tmp_path: Path) -> None:
    save_conversation(str(tmp_path / "talk.md"), run="r", messages=MESSAGES)
    text = (tmp_path / "talk.md").read_text()
    assert "## user\n\nwhat is" in text
    assert "````\n```\nfence\n```\n````" in text
    save_conversation(str(tmp_path / "talk.json"), run="r", messages=MESSAGES)
    saved = json.loads((tmp_path / "talk.json").read_text())
    assert saved["run"] == "r"
    assert [each["role"] for each in saved["messages"]] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]
    assert (tmp_path / "talk.json").stat().st_mode & 0o777 == 0o600


def test_saving_never_writes_over_a_file_and_says_so(tmp_path: Path) -> None:
    taken = tmp_path / "talk.md"
    taken.write_text("mine")
    said = save_conversation(str(taken), run="r", messages=MESSAGES)
    assert taken.read_text() == "mine"
    assert "exists and was left alone" in said
    assert str(tmp_path / "talk-2.md") in said
    assert (tmp_path / "talk-2.md").exists()


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot write"):
        save_conversation(str(tmp_path / "no" / "talk.md"), run="r", messages=MESSAGES)


def test_markdown_is_set_for_the_width_and_links_show_their_address() -> None:
    shown = set_block(
        "- **one** [two](http://x.example/y)\n- " + "long " * 30, width=40, colour=False
    )
    assert "**" not in shown
    assert "http://x.example/y" in shown
    assert "\x1b" not in shown
    assert all(cells(row) <= 40 for row in shown.split("\n"))


def test_square_brackets_of_the_model_are_text_not_markup() -> None:
    assert "[red]x[/red] :smile:" in set_block("[red]x[/red] :smile:", width=60, colour=True)


def test_only_the_mark_of_a_tool_line_is_coloured() -> None:
    painted, _ = paint(Piece("tool", "💻 ls  ✓ 0.1 s"), ink=Ink(colour=True), width=80, whole=True)
    assert painted == "💻 ls\x1b[32m  ✓\x1b[0m \x1b[2m0.1 s\x1b[0m"


@pytest.mark.parametrize("width", [20, 40, 80])
def test_the_face_moves_fits_and_tells_the_time(width: int) -> None:
    frames = {spin("running something rather long to read", n * 0.2, width) for n in range(12)}
    assert len(frames) > 4
    assert all(cells(frame) <= width + 4 for frame in frames)
    assert spin("x", 75.0, 80).endswith("75 s")
    assert spin("", 1.0, 80) == ""


@pytest.mark.anyio
async def test_a_watcher_that_falls_behind_reads_on_from_the_journal() -> None:
    bus = Bus(InMemoryJournal(), backlog=4)
    told: list[Piece] = []
    slow = anyio.Event()

    async def tell(pieces: list[Piece]) -> None:
        told.extend(pieces)
        await slow.wait()

    watcher = Watcher(bus, Transcript("r"), tell)
    answer = Message(role="assistant", text="one two three four five six")
    async with anyio.create_task_group() as group:
        await group.start(watcher.run)
        await bus.publish(TurnStarted(run="r", turn=1))
        for word in answer.text.split():
            bus.glimpse("r", Delta(word + " "))
        await bus.publish(MessageAdded(run="r", message=answer))
        await bus.publish(TurnEnded(run="r", turn=1, outcome="answered"))
        slow.set()
        with anyio.fail_after(5):
            await watcher.settle()
        group.cancel_scope.cancel()
    assert [piece.text for piece in told if piece.kind == "text"] == [answer.text]
    assert told[-1].kind == "usage"
