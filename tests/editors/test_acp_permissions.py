"""Permissions in an editor: what is asked, what counts as an answer, and what it covers."""

import asyncio
from pathlib import Path
from typing import Any

import acp
import pytest
from acp import schema
from editor_client import Editor, call, choose, open_editor, prompt, say

pytestmark = pytest.mark.anyio
ASKING_RULE = """
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {name: ask-for-notes, description: Changes of files are asked about}
spec:
  match: {any: [{effects: write}]}
  decide: {effect: ask}
"""


def ask_about_writes(home: Path) -> None:
    folder = home / "home/policies"
    folder.mkdir(parents=True)
    (folder / "notes.yaml").write_text(ASKING_RULE)


def text_files(folder: Path) -> list[Path]:
    return list(folder.glob("*.txt"))


def results(editor: Editor) -> list[str]:
    ended = [each for each in editor.of_kind("tool_call_update") if each.content]
    return [each.content[-1].content.text for each in ended]


async def test_a_refused_edit_is_refused_by_every_tool_until_the_person_speaks(
    tmp_path: Path,
) -> None:
    ask_about_writes(tmp_path)
    notes = tmp_path / "notes.txt"
    notes.write_text("old\n")
    editor = Editor(choose("reject_once"))
    replies = [
        call("write_file", path="notes.txt", content="new\n"),
        call("terminal", command="echo new > notes.txt"),
        call("terminal", command=f"python3 -c \"open('{notes}','w').write('new')\""),
        call("terminal", command="cat notes.txt"),
        say("I may not."),
        call("write_file", path="notes.txt", content="new\n"),
        say("Written."),
    ]
    async with open_editor(editor, tmp_path, replies) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        await prompt(connection, session, "change my notes")
        assert notes.read_text() == "old\n"
        [(asked, options)] = editor.asked
        assert options == ["allow_once", "allow_always", "reject_once"]
        difference = asked.content[0]
        assert (difference.path, difference.old_text, difference.new_text) == (
            *(str(notes), "old\n", "new\n"),
        )
        refused = results(editor)
        assert "the person refused a change of" in refused[1]
        assert "the person refused a change of" in refused[2]
        assert "old" in refused[3]
        editor.forget()
        editor.answer = choose("allow_once")
        await prompt(connection, session, "please do")
        assert len(editor.asked) == 1
    assert notes.read_text() == "new\n"
    written = [each for each in editor.of_kind("tool_call_update") if each.content][-1].content[0]
    assert (written.path, written.old_text, written.new_text) == (str(notes), "old\n", "new\n")


async def test_only_what_was_offered_counts_and_always_only_where_the_rules_permit(
    tmp_path: Path,
) -> None:
    ask_about_writes(tmp_path)
    (tmp_path / "build").mkdir()
    answers = iter(("allow_everything", "allow_always", "allow_always"))
    editor = Editor(lambda asked, options: choose(next(answers))(asked, options))
    replies = [
        call("write_file", path="one.txt", content="1"),
        call("write_file", path="two.txt", content="2"),
        call("write_file", path="two.txt", content="2"),
        call("terminal", command="rm -rf build"),
        say("Done."),
    ]
    async with open_editor(editor, tmp_path, replies) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        await prompt(connection, session, "write them")
    assert not (tmp_path / "one.txt").exists()
    assert (tmp_path / "two.txt").read_text() == "2"
    assert [options for _, options in editor.asked] == [
        ["allow_once", "allow_always", "reject_once"],
        ["allow_once", "allow_always", "reject_once"],
        ["allow_once", "reject_once"],
    ]
    assert (tmp_path / "build").is_dir()
    assert "irreversible" in editor.asked[-1][0].content[0].content.text


async def test_a_client_that_does_not_answer_is_asked_once(tmp_path: Path) -> None:
    ask_about_writes(tmp_path)
    never = asyncio.Event()

    async def wait() -> Any:
        await never.wait()
        return schema.DeniedOutcome(outcome="cancelled")

    editor = Editor(lambda asked, options: wait())
    replies = [
        call("write_file", path="one.txt", content="1"),
        call("write_file", path="two.txt", content="2"),
        say("Nobody answers."),
    ]
    soon = {"policy.approval_timeout": "0.3"}
    async with open_editor(editor, tmp_path, replies, **soon) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        assert await prompt(connection, session, "write them") == "end_turn"
    assert len(editor.asked) == 1
    assert "it is not asked again in this session" in results(editor)[1]
    assert not text_files(tmp_path)


async def test_in_the_mode_look_nothing_is_changed(tmp_path: Path) -> None:
    editor = Editor()
    replies = [
        call("write_file", path="one.txt", content="1"),
        call("terminal", command="touch two.txt; ls"),
        call("terminal", command="echo fine"),
        say("I looked."),
        call("write_file", path="one.txt", content="1"),
        say("Written."),
    ]
    async with open_editor(editor, tmp_path, replies) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        with pytest.raises(acp.RequestError, match="there are: ask, look"):
            await connection.set_session_mode(session_id=session, mode_id="yolo")
        await connection.set_session_mode(session_id=session, mode_id="look")
        await prompt(connection, session, "write it")
        assert not text_files(tmp_path)
        assert "in the mode look" in results(editor)[0]
        assert "in the mode look" in results(editor)[1]
        assert "fine" in results(editor)[2]
        assert editor.asked == []
        await connection.set_session_mode(session_id=session, mode_id="ask")
        await prompt(connection, session, "now write it")
    assert (tmp_path / "one.txt").read_text() == "1"
    assert [each.current_mode_id for each in editor.of_kind("current_mode_update")] == [
        "look",
        "ask",
    ]


async def test_questions_of_the_agent_are_choices(tmp_path: Path) -> None:
    editor = Editor(choose("choice-2"))
    replies = [
        call("clarify", question="Which one?", choices=["the red", "the blue"]),
        call("clarify", question="Why?"),
        say("Blue."),
    ]
    async with open_editor(editor, tmp_path, replies) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        await prompt(connection, session, "paint it")
    assert "the blue" in results(editor)[0]
    assert "ask this in your answer" in results(editor)[1]


async def test_unsaved_text_is_read_and_what_is_written_reaches_the_editor(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("saved\n")
    (tmp_path / "other.txt").write_text("other\n")
    shown = str(tmp_path / "notes.txt")
    editor = Editor(files={shown: "not saved\n"})
    replies = [
        call("read_file", path="notes.txt"),
        call("read_file", path="other.txt"),
        call("patch", path="notes.txt", old="not saved", new="changed"),
        say("Done."),
    ]
    async with open_editor(editor, tmp_path, replies) as connection:
        session = (await connection.new_session(cwd=str(tmp_path), mcp_servers=[])).session_id
        await prompt(connection, session, "change them")
    assert "not saved" in results(editor)[0]
    assert "other" in results(editor)[1]
    assert editor.files == {shown: "changed\n"}
    assert (tmp_path / "notes.txt").read_text() == "changed\n"
