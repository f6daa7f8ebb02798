"""A review begins by itself when a conversation ends: once, in the back, and with a word left."""

import sys
import time
from collections.abc import Sequence
from pathlib import Path

import anyio
import msgspec
import pytest
from compiler_fixtures import a_script, scripted
from lifecycle_fixtures import Home
from review_tasks import a_task, tasks

sys.path.insert(0, str(Path(__file__).parents[1] / "cli"))
from hermes_command import Hermes

from hermes.app.skills.review import read_review_status, review_lock, run_automatic_review
from hermes.app.skills.review_due import find_due_review
from hermes.cli.background_runs import REVIEW_LOG_NAME, start_review_if_due
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events import Event
from hermes.core.events.runs import ModelAnswered
from hermes.core.events.skills import SkillShown, SkillsReviewed
from hermes.core.protocols import Model
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings, load
from hermes.skills.library import Skill
from hermes.skills.lifecycle.evaluation import RunReplay

ERROR = "no such file: /srv/{n}"


def a_journal(hermes: Hermes, events: Sequence[Event]) -> LoadedSettings:
    loaded = load(home=hermes.home, variables={})

    async def write() -> None:
        async with open_journal(loaded.store) as journal:
            await journal.append(*events)

    hermes.home.mkdir(parents=True, exist_ok=True)
    anyio.run(write)
    return loaded


def reviews_in(loaded: LoadedSettings) -> list[SkillsReviewed]:
    async def read() -> list[SkillsReviewed]:
        async with open_journal(loaded.store) as journal:
            found = [each.event async for each in journal.read(kinds=("skill.reviewed",))]
        return [each for each in found if isinstance(each, SkillsReviewed)]

    return anyio.run(read)


def said(hermes: Hermes, folder: Path, *more: str) -> None:
    script = a_script(folder / "s.jsonl", {"text": "done"})
    done = hermes.process("--set", f"model.default=scripted:{script}", *more, "chat", "-q", "hi")
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr


def wait_for_review(loaded: LoadedSettings) -> SkillsReviewed:
    deadline = time.monotonic() + 60
    while not (found := reviews_in(loaded)):
        assert time.monotonic() < deadline, (loaded.home / REVIEW_LOG_NAME).read_text()
        time.sleep(0.1)
    assert len(found) == 1
    return found[0]


def test_after_fifteen_tasks_the_next_goodbye_begins_one(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path)
    loaded = a_journal(hermes, [*tasks(13), *a_task("bad", "cannot open it", "failed")])
    said(hermes, tmp_path)
    event = wait_for_review(loaded)
    assert event.why == "15 tasks were finished since the last review"
    assert event.runs == ("bad",)
    assert "1 task to review" in event.detail and "skills.review_model" in event.detail
    status = msgspec.json.decode(hermes("skills", "review", "--status", "--json").stdout)
    assert (status["tasks"], status["due"], status["by_itself"]) == (0, None, True)
    assert status["last"]["runs"] == ["bad"]
    assert "15 tasks" in hermes("skills", "review", "--status").stdout


def test_three_equal_errors_are_reason_enough(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path)
    loaded = a_journal(hermes, tasks(3, ERROR))
    said(hermes, tmp_path)
    assert "met the same error" in wait_for_review(loaded).why


def test_it_can_be_switched_off_and_begins_nothing_before_its_time(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path)
    loaded = a_journal(hermes, tasks(2, ERROR))
    assert start_review_if_due(loaded, {}) is False, "two of three"
    a_journal(hermes, a_task("third", ERROR))
    said(hermes, tmp_path, "--set", "skills.review_by_itself=false")
    assert not (hermes.home / REVIEW_LOG_NAME).exists()
    assert start_review_if_due(load(home=tmp_path / "none", variables={}), {}) is False


def test_while_one_is_at_work_no_other_begins(tmp_path: Path) -> None:
    hermes = Hermes(tmp_path)
    loaded = a_journal(hermes, tasks(3, ERROR))

    async def meanwhile() -> None:
        async with open_journal(loaded.store) as journal, review_lock(loaded, journal):
            quiet = hermes.process("skills", "review", "--background")
            assert (quiet.returncode, quiet.stdout) == (0, "")
            loud = hermes.process("skills", "review", "--now")
            assert loud.returncode != 0
            assert "a review is already running" in loud.stderr
            status = await read_review_status(journal, loaded)
            assert "process" in status.running

    anyio.run(meanwhile)
    assert reviews_in(loaded) == []
    assert hermes.process("skills", "review", "--background").returncode == 0
    assert len(reviews_in(loaded)) == 1
    again = hermes.process("skills", "review", "--background")
    assert again.stdout == "", "what was read is not read again"


def no_replay(skill: Skill) -> RunReplay:
    raise AssertionError("nothing was proposed, so nothing is played")


async def by_itself(home: Home, model: Model | None) -> SkillsReviewed:
    found = await find_due_review(home.journal, home.loaded)
    assert found is not None
    publish = Bus(home.journal).publish
    return await run_automatic_review(
        found, home.journal, home.lives, home.library(), publish, model, no_replay
    )


@pytest.mark.anyio
async def test_with_a_model_its_answers_are_paid_for_and_written_down(tmp_path: Path) -> None:
    home = Home(tmp_path)
    await home.journal.append(*tasks(3, ERROR))
    event = await by_itself(home, scripted('{"skill": "", "why": "a file was missing"}'))
    assert event.detail == "nothing proposed: a file was missing"
    events = [each.event async for each in home.journal.read()]
    assert sum(isinstance(each, ModelAnswered) for each in events) == 1
    assert await find_due_review(home.journal, home.loaded) is None


@pytest.mark.anyio
async def test_a_model_that_fails_leaves_a_word_and_is_not_asked_again_at_once(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path)
    await home.journal.append(*tasks(3, ERROR))
    event = await by_itself(home, scripted())
    assert "no review by a model" in event.detail
    assert await find_due_review(home.journal, home.loaded) is None


@pytest.mark.anyio
async def test_what_was_only_counted_can_still_be_reviewed_when_asked_for(tmp_path: Path) -> None:
    home = Home(tmp_path)
    shown = [SkillShown(run=f"run-{n}", skill="disk-full") for n in range(2)]
    await home.journal.append(*tasks(3, ERROR), *shown)
    event = await by_itself(home, None)
    assert "3 of them had 'no such file: ·'" in event.detail
    assert "disk-full (2)" in event.detail
    assert await find_due_review(home.journal, home.loaded) is None
    again = await find_due_review(home.journal, home.loaded, anyway=True)
    assert again is not None
    assert [task.run for task in again.tasks] == ["run-0", "run-1", "run-2"]


@pytest.mark.anyio
async def test_the_claim_ends_with_its_holder(tmp_path: Path) -> None:
    home = Home(tmp_path)
    async with review_lock(home.loaded, home.journal):
        with pytest.raises(SettingsError, match="already running"):
            async with review_lock(home.loaded, home.journal):
                pass
    async with review_lock(home.loaded, home.journal):
        pass
