"""A change that a review proposes comes into use only through the gate."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from compiler_fixtures import scripted
from lifecycle_fixtures import Home, distilled
from review_tasks import a_task, tasks

from hermes.app.skills.review import evolve_skill, review_failures
from hermes.app.skills.review_due import find_due_review
from hermes.core.errors import SettingsError
from hermes.skills.format import compute_skill_digest
from hermes.skills.library import Skill
from hermes.skills.lifecycle.evaluation import (
    ReplayCase,
    ReplayResult,
    RunReplay,
    parse_replay_case,
)

pytestmark = pytest.mark.anyio


def answer(text: str) -> str:
    return json.dumps(
        {"skill": "disk-full", "file": "playbook.yaml", "text": text, "why": "cut less"}
    )


def replays(good: Callable[[Skill], bool]) -> Callable[[Skill], RunReplay]:
    def of(skill: Skill) -> RunReplay:
        async def replay(case: ReplayCase, using: bool) -> ReplayResult:
            return ReplayResult(
                solved=good(skill) if using else True, seconds=1.0 if using else 10.0
            )

        return replay

    return of


def keeps_a_tail(skill: Skill) -> bool:
    return "tail -c 1M" in (skill.folder / "playbook.yaml").read_text()


async def a_failing_home(folder: Path) -> tuple[Home, Path]:
    home = Home(folder)
    trusted = await home.trusted("disk-full")
    await home.journal.append(*tasks(3, "no such file: /srv/{n}"))
    return home, trusted


async def test_three_equal_errors_lead_to_one_change_that_proves_itself(tmp_path: Path) -> None:
    home, folder = await a_failing_home(tmp_path)
    loaded = home.loaded
    found = await find_due_review(home.journal, loaded)
    assert found is not None
    text = (folder / "playbook.yaml").read_text().replace("truncate -s 0", "tail -c 1M")
    event = await review_failures(
        found,
        home.journal,
        home.lives,
        home.library(),
        scripted(answer(text)),
        replays(keeps_a_tail),
    )
    assert event.accepted, event.detail
    assert event.changed == "disk-full"
    assert "tail -c 1M" in (folder / "playbook.yaml").read_text()
    assert await home.state("disk-full") == "validated"
    await home.journal.append(event)
    assert await find_due_review(home.journal, loaded) is None


async def test_a_change_that_does_not_pass_leaves_everything_as_it_was(tmp_path: Path) -> None:
    home, folder = await a_failing_home(tmp_path)
    found = await find_due_review(home.journal, home.loaded)
    assert found is not None
    before = compute_skill_digest(folder)
    text = (folder / "playbook.yaml").read_text().replace("truncate -s 0", "rm -f")
    event = await review_failures(
        found,
        home.journal,
        home.lives,
        home.library(),
        scripted(answer(text)),
        replays(keeps_a_tail),
    )
    assert not event.accepted
    assert "solves 0 of 2" in event.detail
    assert compute_skill_digest(folder) == before
    assert await home.state("disk-full") == "trusted"


async def test_what_nothing_ever_proved_waits_as_a_draft(tmp_path: Path) -> None:
    home = Home(tmp_path)
    await home.lives.draft(distilled("disk-full"), run="run-1")
    await home.journal.append(*tasks(3, "no such file: /srv/{n}"), *a_task("more"))
    found = await find_due_review(home.journal, home.loaded)
    assert found is not None
    text = distilled("disk-full", "disk full, quota").playbook
    event = await review_failures(
        found,
        home.journal,
        home.lives,
        home.library(),
        scripted(answer(text)),
        replays(keeps_a_tail),
    )
    assert not event.accepted
    assert "waits as a draft" in event.detail


async def test_evolution_ends_at_the_same_gate(tmp_path: Path) -> None:
    pytest.importorskip("gepa")
    home, folder = await a_failing_home(tmp_path)
    text = (folder / "playbook.yaml").read_text().replace("truncate -s 0", "tail -c 1M")
    manual = (folder / "SKILL.md").read_text()
    model = scripted(*[f"```\n{text}\n```", f"```\n{manual}\n```"] * 10)
    skill = home.library().find("disk-full")
    accepted, detail = await evolve_skill(skill, home.lives, model, replays(keeps_a_tail))
    assert accepted, detail
    assert "tail -c 1M" in (folder / "playbook.yaml").read_text()
    with pytest.raises(SettingsError, match="no case has proven"):
        fresh = Home(tmp_path / "other")
        await evolve_skill(skill, fresh.lives, model, replays(keeps_a_tail))


def test_a_case_is_read_as_it_was_written() -> None:
    case = ReplayCase(name="port-taken", seed=7, kind="look-alike")
    assert parse_replay_case(str(case)) == case
    assert parse_replay_case("something else") is None
