"""What a publisher claims is played again here, on a broken host, before anybody believes it."""

from pathlib import Path

import pytest
from exchange_homes import a_home
from lifecycle_fixtures import Home

from hermes.app.skills.claimed_evidence import replay_evidence, unproven_cases
from hermes.app.skills.exchange import SkillExchange, record_import
from hermes.app.skills.library import open_library, read_skill_states
from hermes.core.events.skills import SkillChanged, SkillMeasured
from hermes.environments.sandboxing import support
from hermes.settings.load import load
from hermes.skills.exchange.importer import ImportExamination
from hermes.skills.history import copy_skill
from hermes.skills.lifecycle.evaluation import ReplayCase, ReplayResult
from hermes.skills.lifecycle.status import fold_skill_statuses
from hermes.skills.scanner.finding import SkillFile

pytestmark = pytest.mark.anyio
boxed = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)
SKILL, TRUE, CLAIM = "port-taken", "variant port-taken #1", "variant hung-worker #5"
"""What it does solve, and what it does not."""


def claiming(folder: Path, claim: str) -> bytes:
    """A bundle of one that comes with Hermes, and what its publisher says that it has solved."""
    loaded, alice = a_home(folder, "alice")
    bundled = open_library(load(home=loaded.home, variables={})).find(SKILL)
    copy_skill(bundled.folder, loaded.home / "skills" / SKILL)
    own = open_library(loaded).find(SKILL)
    assert own.origin == "user"
    said = SkillMeasured(
        run="r", skill=SKILL, digest=own.digest, passed=True, cases=(claim,), solved_with=1
    )
    return alice.export(own, [said], name="alice")


async def taken_in(home: Home, data: bytes) -> ImportExamination:
    exchange = SkillExchange(home.loaded)
    gate = exchange.open_importer(lambda _: None, sandbox=False)
    examined = await gate.examine(data)
    placed = gate.admit(examined)
    await record_import(home.journal, "skills", examined, placed, "bob")
    return examined


async def not_played(home: Home, folder: Path) -> None:
    data = claiming(folder, CLAIM)
    gate = SkillExchange(home.loaded).open_importer(lambda _: None, sandbox=False, prove=False)
    examined = await gate.examine(data)
    await record_import(home.journal, "skills", examined, gate.admit(examined), "bob")


@boxed
async def test_evidence_that_holds_here_is_told_and_makes_it_no_more_than_a_draft(
    tmp_path: Path,
) -> None:
    home = Home(tmp_path / "bob")
    examined = await taken_in(home, claiming(tmp_path, TRUE))
    assert examined.proven.outcome == "passed", examined.proven
    assert examined.proven.cases == (TRUE,)
    assert (await read_skill_states(home.journal))[SKILL] == "draft"


@boxed
async def test_forged_evidence_keeps_it_a_draft_and_says_so(tmp_path: Path) -> None:
    home = Home(tmp_path / "bob")
    examined = await taken_in(home, claiming(tmp_path, CLAIM))
    assert examined.proven.outcome == "failed"
    assert "0 of 1" in examined.proven.detail and CLAIM in examined.proven.detail
    assert not examined.blocked
    events = [each.event async for each in home.journal.read()]
    (step,) = [each for each in events if isinstance(each, SkillChanged)]
    assert step.state == "draft"
    assert step.evidence[0].startswith("failed: 0 of 1")
    await no_other_case_makes_up_for_it(home, SKILL)


async def no_other_case_makes_up_for_it(home: Home, skill: str) -> None:
    played: list[str] = []

    async def replay(case: ReplayCase, using: bool) -> ReplayResult:
        """All goes well but what was claimed, which nobody solves, so that it is not worse."""
        played.append(str(case))
        good = str(case) != CLAIM
        return ReplayResult(solved=good, seconds=1.0 if using else 10.0, by_skill=using and good)

    cases = [ReplayCase(name=SKILL, seed=seed) for seed in (1, 2)]
    judgement, _ = await home.lives.evaluate(home.root / skill, cases, replay, run="gate")
    assert CLAIM in played
    assert not judgement.passed
    assert judgement.reasons == (
        f"its publisher claims that it solves {CLAIM}, and here it does not",
    )
    assert (await read_skill_states(home.journal))[skill] == "draft"


async def test_a_claim_that_holds_at_the_gate_lets_it_pass(tmp_path: Path) -> None:
    home = Home(tmp_path / "bob")
    await not_played(home, tmp_path)

    async def replay(case: ReplayCase, using: bool) -> ReplayResult:
        return ReplayResult(solved=True, seconds=1.0 if using else 10.0, by_skill=using)

    cases = [ReplayCase(name=SKILL, seed=seed) for seed in (1, 2)]
    judgement, _ = await home.lives.evaluate(home.root / SKILL, cases, replay, run="gate")
    assert judgement.passed, judgement
    assert (await read_skill_states(home.journal))[SKILL] == "validated"


async def test_what_this_machine_cannot_play_is_said_and_not_believed(tmp_path: Path) -> None:
    unknown = SkillFile(path="measured.jsonl", data=b'{"cases":["variant no-such-thing #1"]}')
    told = await replay_evidence(tmp_path, [unknown])
    assert (told.outcome, told.cases) == ("not-run", ())
    assert "no-such-thing cannot be played here" in told.detail
    nothing = await replay_evidence(tmp_path, [SkillFile(path="measured.jsonl", data=b"{}")])
    assert "names no case" in nothing.detail


async def test_a_claim_that_was_not_played_on_import_is_kept_for_the_gate(tmp_path: Path) -> None:
    home = Home(tmp_path / "bob")
    await not_played(home, tmp_path)
    await no_other_case_makes_up_for_it(home, SKILL)


@pytest.mark.parametrize(
    ("told", "left"),
    [("not-run: asked not to", 1), ("failed: 0 of 1", 1), ("passed: 1 of 1", 0)],
)
def test_a_claim_that_nobody_here_has_seen_hold_is_a_case_of_the_gate(told: str, left: int) -> None:
    step = SkillChanged(run="r", skill="s", digest="d", state="draft", evidence=(told, CLAIM))
    assert len(unproven_cases(fold_skill_statuses([step])["s"])) == left
