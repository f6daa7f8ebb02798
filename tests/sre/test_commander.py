"""An incident as a transaction: fixed and proved, or as it was, and never half-way."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from incident_host import FIX, Host, events, run_commander
from msgspec import structs

from hermes.core.events import Event
from hermes.core.events.incidents import (
    ChangeBegan,
    ChangesUndone,
    IncidentAssessed,
    IncidentChecked,
    IncidentClosed,
    PhaseEntered,
)
from hermes.core.events.skills import PlaybookEnded
from hermes.core.events.tools import ToolRequested
from hermes.core.incident import IncidentDetails, read_incident
from hermes.core.messages import ToolCall
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.discovery import SkillOrigin
from hermes.sre.checks import CheckResult
from hermes.sre.commander import MAX_RESUME_GAP_S, Commander, IncidentResult
from hermes.sre.context import IncidentContext
from hermes.sre.model_responder import FailedAttempt, FixResult, Hypothesis, InvestigationResult
from hermes.tools.executor import Executor

pytestmark = pytest.mark.anyio
LONG = timedelta(seconds=MAX_RESUME_GAP_S + 60)


@pytest.fixture
def host(tmp_path: Path) -> Host:
    return Host(tmp_path)


async def test_a_playbook_fixes_it_and_checks_it_has_no_hand_in_say_so(host: Host) -> None:
    host.playbook("web", FIX)
    ending = await run_commander(host)
    assert (ending.outcome, ending.answered_by) == ("resolved", "playbook")
    assert host.ledger == ["web-1"]
    assert host.reported == host.learned == ["incident-1"]
    phases = [event.phase for event in events(host, PhaseEntered)]
    assert phases == ["assess", "reflex", "verify", "document", "learn"]
    begun = events(host, ChangeBegan)[0]
    assert begun.undo.endswith("rm -f well-web")


async def test_a_fix_that_does_not_hold_is_taken_back_and_teaches_nothing(host: Host) -> None:
    host.playbook("web", ("touch one", "rm one"), ("touch two", "rm two"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert host.ledger == ["web-1", "web-2", "undo-web-2", "undo-web-1"]
    assert not list(host.folder.glob("one"))
    assert (host.reported, host.learned) == (["incident-1"], [])


async def test_a_fix_that_makes_it_worse_is_taken_back(host: Host) -> None:
    host.watched = ("web", "shop")
    (host.folder / "well-shop").touch()
    host.playbook("web", ("touch well-web; rm well-shop", "rm well-web; touch well-shop"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert (host.well("web"), host.well("shop")) == (False, True)


async def test_the_next_way_is_tried_once_the_first_is_taken_back(host: Host) -> None:
    host.playbook("web", ("touch one", "rm one"))
    host.playbook("web-is-down-otherwise", FIX)
    ending = await run_commander(host)
    assert ending.outcome == "resolved"
    assert host.ledger == ["web-1", "undo-web-1", "web-is-down-otherwise-1"]


async def test_two_faults_at_once_keep_the_half_that_helped(host: Host) -> None:
    host.watched = ("web", "shop")
    host.playbook("web", FIX)
    host.playbook("shop", ("touch well-shop", "rm well-shop"), fixes="shop")
    ending = await run_commander(host)
    assert ending.outcome == "resolved", ending
    assert sorted(host.ledger) == ["shop-1", "web-1"]


async def test_people_may_take_longer_to_answer_than_a_step_may_run(host: Host) -> None:
    host.playbook("web", FIX, timeout=0.2)
    host.answers_after = 1.0
    # Its own time-out and the grace of the tool are shorter than the answer takes.
    ending = await run_commander(host)
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1"])


async def test_an_approver_who_never_answers_is_a_no(host: Host) -> None:
    host.playbook("web", FIX)
    host.answers = False
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert "may not go on" in ending.reason
    assert host.ledger == []


async def test_three_attempts_are_enough(host: Host) -> None:
    for number in range(5):
        host.playbook(f"web-{number}", ("touch nothing", "rm nothing"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert len([line for line in host.ledger if not line.startswith("undo")]) == 3


async def test_a_change_without_a_way_back_is_told_to_people(host: Host) -> None:
    host.playbook("web", ("touch one", "exit 3"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert "could not be undone" in ending.reason
    undone = events(host, ChangesUndone)[0]
    assert (len(undone.failed), undone.calls) == (1, ())


async def test_a_check_of_a_playbook_without_an_answer_undoes_no_fix_that_others_confirm(
    host: Host,
) -> None:
    host.playbook("web", FIX)
    file = host.folder / "skills/web/playbook.yaml"
    before, verify, _ = file.read_text().partition("verify:")
    file.write_text(f"{before}{verify}\n  - name: slow\n    timeout: 1\n    command: sleep 600\n")
    assert (await run_commander(host)).outcome == "resolved"
    assert host.well()
    assert host.ledger == ["web-1"]


@pytest.mark.parametrize(("origin", "asked"), [("bundled", False), ("user", True)])
async def test_a_restart_that_belongs_to_the_undo_of_a_bundled_playbook_asks_nobody(
    host: Host, origin: SkillOrigin, asked: bool
) -> None:
    host.origin, host.answers_after = origin, 0.01
    host.playbook("web", ("systemctl restart web || touch one", "rm one"))
    assert (await run_commander(host)).outcome == "escalated"
    assert ("systemctl restart web" in host.questions) == asked


async def test_a_check_that_gives_no_answer_has_failed(host: Host) -> None:
    host.playbook("web", FIX)
    host.slow = True
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert "no answer within" in ending.reason
    assert not host.well(), "what could not be proved was taken back"


async def test_a_proposed_check_that_hangs_holds_nobody_up(host: Host) -> None:
    guess = Hypothesis(component="web", check="sleep 60")
    ending = await with_mind(
        host, Mind(InvestigationResult(verdict="fix", hypotheses=(guess,)), "touch x")
    )
    assert ending.outcome == "escalated"


async def test_what_heals_by_itself_in_the_middle_is_told_as_such(host: Host) -> None:
    host.playbook("shop", ("true", "true"), fixes="shop")
    (host.folder / "well-shop").touch()

    class Slow:
        """Takes so long to look that it is over when it is done."""

        async def investigate(
            self, details: IncidentDetails, baseline: Sequence[CheckResult]
        ) -> InvestigationResult:
            (host.folder / "well-web").touch()
            return InvestigationResult(verdict="escalate")

        async def remediate(self, *given: object) -> FixResult:
            raise AssertionError("there is nothing to mend")

    host.responder = Slow()
    ending = await run_commander(host)
    assert ending.outcome == "recovered"
    assert not host.learned


class Mind:
    """Says what it is told to; changes what it is told to."""

    def __init__(self, synthesis: InvestigationResult, *commands: str) -> None:
        self.synthesis, self.commands = synthesis, commands
        self.context: IncidentContext | None = None

    async def investigate(
        self, details: IncidentDetails, baseline: Sequence[CheckResult]
    ) -> InvestigationResult:
        return self.synthesis

    async def remediate(
        self,
        details: IncidentDetails,
        hypothesis: Hypothesis,
        attempt: int,
        failed_attempts: Sequence[FailedAttempt],
        executor: Executor,
    ) -> FixResult:
        assert self.context is not None
        road = self.context.execute_for_run(f"{details.run}/fix-{attempt}", executor)
        for number, command in enumerate(self.commands):
            await road(ToolCall(f"m{attempt}-{number}", "terminal", {"command": command}))
        return FixResult()


GUESS = InvestigationResult(verdict="fix", hypotheses=(Hypothesis(component="web"),))


async def with_mind(host: Host, mind: Mind) -> IncidentResult:
    host.responder = mind
    case = await host.open_incident()
    async with host.context() as context:
        mind.context = context
        return await Commander(context, case).run()


async def test_a_model_that_claims_success_is_not_believed(host: Host) -> None:
    ending = await with_mind(host, Mind(GUESS))
    assert (ending.outcome, ending.answered_by) == ("escalated", "model")
    assert not host.learned


async def test_what_a_model_changes_is_kept_first_and_put_back_when_it_did_not_help(
    host: Host,
) -> None:
    conf = host.folder / "web.conf"
    conf.write_text("port = 80\n")
    ending = await with_mind(host, Mind(GUESS, f"echo oops > {conf}; touch {host.folder}/new"))
    assert ending.outcome == "escalated"
    assert conf.read_text() == "port = 80\n"
    assert not (host.folder / "new").exists()


async def test_a_model_that_fixes_it_is_proved_right(host: Host) -> None:
    ending = await with_mind(host, Mind(GUESS, "touch well-web"))
    assert (ending.outcome, ending.answered_by) == ("resolved", "model")
    assert host.learned == ["incident-1"]


async def test_a_fix_that_no_check_can_judge_is_left_to_a_person(host: Host) -> None:
    host.watched = ()
    ending = await with_mind(host, Mind(GUESS, "touch well-web"))
    assert ending.outcome == "escalated"
    assert host.well(), "it stays: whether it helped is for a person to say"


async def test_a_check_that_the_model_proposes_counts_if_it_fails_before(host: Host) -> None:
    host.watched = ()
    guess = Hypothesis(component="web", check="test -f well-web")
    ending = await with_mind(
        host, Mind(InvestigationResult(verdict="fix", hypotheses=(guess,)), "touch well-web")
    )
    assert ending.outcome == "resolved"


async def test_a_model_that_sees_no_incident_must_convince_the_checks(host: Host) -> None:
    ending = await with_mind(host, Mind(InvestigationResult(verdict="no-incident")))
    assert ending.outcome == "escalated"
    assert "the model concluded no-incident" in ending.reason


async def test_an_incident_has_an_end_even_if_the_work_has_none(host: Host) -> None:
    host.settings = structs.replace(host.settings, time_limit=0.5)
    host.playbook("web", ("sleep 30", "true"))
    ending = await run_commander(host)
    assert ending.outcome == "escalated"
    assert "not fixed within" in ending.reason or "could not be undone" in ending.reason


class Killed(BaseException):
    """In place of a kill: nothing may catch it."""


class Mortal(InMemoryJournal):
    """Dies before or after it has written the n-th batch of events."""

    def __init__(self) -> None:
        super().__init__()
        self.lives: int | None = None
        self.late = False

    async def append(self, *events: Event) -> Sequence[int]:
        if self.lives is not None:
            self.lives -= 1
            if self.lives < 0 and not self.late:
                raise Killed
        written = await super().append(*events)
        if self.lives is not None and self.lives < 0:
            raise Killed
        return written


async def die_and_go_on(
    host: Host, journal: Mortal, lives: int, *, late: bool
) -> IncidentResult | None:
    """Killed at one point, then left alone; None when it was done before that point."""
    case = await host.open_incident()
    journal.lives, journal.late = lives, late
    try:
        async with host.context() as context:
            await Commander(context, case).run()
        return None
    except BaseException as error:
        if not _is_kill(error):
            raise
    journal.lives = None
    async with host.context() as context:
        return await Commander(context, case).run()


def _is_kill(error: BaseException) -> bool:
    if isinstance(error, BaseExceptionGroup):
        return any(_is_kill(each) for each in error.exceptions)
    return isinstance(error, Killed)


@pytest.mark.parametrize("late", [False, True], ids=["before writing", "after writing"])
@pytest.mark.parametrize("helps", [True, False])
async def test_killed_at_any_point_it_goes_on_and_repeats_no_change(
    tmp_path: Path, helps: bool, late: bool
) -> None:
    for lives in range(2 * late + helps, 300, 4):  # the four together meet every point
        folder = tmp_path / str(lives)
        folder.mkdir()
        journal = Mortal()
        host = Host(folder, journal)
        host.playbook("web", ("touch one", "rm one"), FIX if helps else ("true", "true"))
        host.playbook("web-down-second", ("touch two", "rm -f two"))
        ending = await die_and_go_on(host, journal, lives, late=late)
        if ending is None:
            assert lives > 20, "it was hardly ever killed"
            return
        assert ending.outcome in ("resolved", "escalated")
        assert len(host.ledger) == len(set(host.ledger)), (lives, host.ledger)
        closed = [event for event in journal.events if isinstance(event, IncidentClosed)]
        assert len(closed) == 1, lives
        if ending.outcome == "resolved":
            assert host.well()
    pytest.fail("it never came to an end")


async def test_after_a_kill_the_journal_tells_of_the_gap(host: Host) -> None:
    journal = Mortal()
    host.journal = journal
    host.playbook("web", FIX)
    assert await die_and_go_on(host, journal, 12, late=False) is not None
    resumed = [e for e in journal.events if isinstance(e, PhaseEntered) and e.resumed]
    assert len(resumed) == 1


async def test_a_report_that_cannot_be_made_is_told_and_undoes_no_fix(host: Host) -> None:
    host.playbook("web", FIX)
    host.trouble = "the disk is full"
    ending = await run_commander(host)
    assert (ending.outcome, host.well()) == ("resolved", True)
    told = [event.detail for event in events(host, PhaseEntered) if event.phase == "document"]
    assert told[-1] == "failed: the disk is full"


async def test_a_fault_of_ours_takes_changes_back_and_is_reported(host: Host) -> None:
    class Broken(Mind):
        async def remediate(self, *given: object, **more: object) -> FixResult:
            await super().remediate(*given, **more)  # type: ignore[arg-type]
            raise RuntimeError("a bug")

    conf = host.folder / "web.conf"
    conf.write_text("port = 80\n")
    ending = await with_mind(host, Broken(GUESS, f"echo oops > {conf}"))
    assert ending.outcome == "escalated"
    assert "RuntimeError: a bug" in ending.reason
    assert (conf.read_text(), host.reported) == ("port = 80\n", ["incident-1"])


async def test_what_was_closed_stays_closed(host: Host) -> None:
    host.playbook("web", FIX)
    first = await run_commander(host)
    written = await host.journal.last()
    async with host.context() as context:
        past = await read_incident(host.journal, "incident-1")
        assert past is not None
        again = await Commander(context, past.details).run()
    assert again.outcome == first.outcome
    assert await host.journal.last() == written


async def test_after_a_crash_what_was_found_before_it_is_not_asked_again(host: Host) -> None:
    host.playbook("web", FIX)
    case = await host.open_incident()
    id = case.incident
    await host.journal.append(
        PhaseEntered(run=id, incident=id, phase="assess"),
        IncidentChecked(run=id, incident=id, check="web", ok=False, when="before"),
        IncidentAssessed(run=id, incident=id, verdict="unknown"),
        PhaseEntered(run=id, incident=id, phase="reflex", attempt=1),
        PlaybookEnded(run=id, skill="web", outcome="declined", step="look"),
    )
    async with host.context() as context:
        ending = await Commander(context, case).run()
    assert (ending.outcome, host.ledger) == ("resolved", ["web-1"])
    asked = [each.call.id for each in events(host, ToolRequested)]
    assert asked[0].startswith("play-look"), "the host is not assessed again before it acts"
    assert len([each for each in asked if each.startswith("play-look")]) == 1, "its second look"
    again = next(each for each in events(host, PhaseEntered) if each.resumed)
    assert (again.phase, again.attempt) == ("reflex", 1)


async def test_long_after_a_crash_everything_is_asked_again(host: Host) -> None:
    case = await host.open_incident()
    id, then = case.incident, datetime.now(UTC) - LONG
    await host.journal.append(
        PhaseEntered(run=id, incident=id, at=then, phase="assess"),
        IncidentAssessed(run=id, incident=id, at=then, verdict="unknown"),
        PhaseEntered(run=id, incident=id, at=then, phase="reflex", attempt=1),
    )
    async with host.context() as context:
        await Commander(context, case).run()
    assert [each for each in events(host, ToolRequested) if each.call.id.startswith("assess-")]
