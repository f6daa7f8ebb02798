"""A skill's life on the disk and in the journal: extended, trusted, taken back by itself."""

from pathlib import Path

import pytest
from lifecycle_fixtures import Home, distilled

from hermes.core.errors import SettingsError
from hermes.core.events.skills import SkillChanged
from hermes.skills.format import compute_skill_digest
from hermes.skills.lifecycle.status import SkillStatus, change_state, fold_skill_statuses

pytestmark = pytest.mark.anyio


async def test_it_climbs_only_by_evidence(tmp_path: Path) -> None:
    home = Home(tmp_path)
    drafted = await home.lives.draft(distilled("disk-full"), run="run-1")
    assert await home.state("disk-full") == "draft"
    assert not await home.proven(drafted.folder, seconds=10.0)
    assert await home.state("disk-full") == "draft"
    assert await home.proven(drafted.folder)
    assert await home.state("disk-full") == "validated"
    assert await home.lives.record_use("disk-full", drafted.digest, verified=True, run="l") is None
    verdict = await home.lives.record_use("disk-full", drafted.digest, verified=True, run="l")
    assert verdict is not None
    life = await home.lives.status("disk-full")
    assert life.state == "trusted"
    assert life.measured is not None and life.measured.passed


async def test_a_near_duplicate_waits_as_the_next_version_of_the_old_one(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = await home.trusted("disk-full")
    before = compute_skill_digest(folder)
    same = distilled("full-disk-again", "disk full, no space left")
    drafted = await home.lives.draft(same, run="run-2")
    assert drafted.skill == "disk-full"
    assert drafted.extends is not None
    assert compute_skill_digest(folder) == before
    assert await home.state("disk-full") == "trusted"
    assert not (home.root / "full-disk-again").exists()
    assert await home.proven(drafted.folder)
    now = home.library().find("disk-full")
    assert now.digest == drafted.digest != before
    assert now.playbook is not None and "no space left" in now.playbook.signature.words
    assert await home.state("disk-full") == "validated"
    assert (await home.lives.status("disk-full")).parents == (before,)


async def test_a_live_regression_brings_the_parent_back(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = await home.trusted("disk-full")
    before = compute_skill_digest(folder)
    changed = distilled("disk-full", "disk full, inodes", "rm -f /var/log/x.log")
    drafted = await home.lives.draft(changed, run="run-2")
    assert await home.proven(drafted.folder)
    assert "rm -f" in (folder / "playbook.yaml").read_text()
    verdict = await home.lives.record_use(
        "disk-full", drafted.digest, verified=False, run="live", why="the service is down"
    )
    assert verdict is not None and verdict.restore == before
    assert compute_skill_digest(folder) == before
    life = await home.lives.status("disk-full")
    assert (life.state, life.digest) == ("trusted", before)
    assert "the service is down" in life.steps[-1].reason


async def test_without_a_parent_a_regression_makes_it_a_draft_again(tmp_path: Path) -> None:
    home = Home(tmp_path)
    folder = await home.trusted("disk-full")
    await home.lives.record_use(
        "disk-full", compute_skill_digest(folder), verified=False, run="live", why="worse"
    )
    assert await home.state("disk-full") == "draft"


async def test_another_trouble_is_a_skill_of_its_own(tmp_path: Path) -> None:
    home = Home(tmp_path)
    await home.trusted("disk-full")
    other = distilled("dead-lock", "database deadlock detected", "psql -c 'select 1'")
    drafted = await home.lives.draft(other, run="run-2")
    assert (drafted.skill, drafted.extends) == ("dead-lock", None)


def test_no_step_is_skipped_and_every_step_can_be_taken_back() -> None:
    life = SkillStatus(skill="x", state="draft", digest="d")
    with pytest.raises(SettingsError, match="before it is compiled"):
        change_state(life, "trusted", run="r", by="me")
    trusted = SkillStatus(skill="x", state="trusted", digest="d")
    for back in ("draft", "compiled", "validated", "retired"):
        assert change_state(trusted, back, run="r", by="me").before == "trusted"
    with pytest.raises(SettingsError, match="already"):
        change_state(trusted, "trusted", run="r", by="me")


def test_a_candidate_does_not_change_where_the_skill_stands() -> None:
    events = [
        SkillChanged(run="r", skill="x", digest="a", state="trusted"),
        SkillChanged(run="r", skill="x", digest="b", state="draft", candidate=True),
    ]
    life = fold_skill_statuses(events)["x"]
    assert (life.state, life.digest) == ("trusted", "a")
