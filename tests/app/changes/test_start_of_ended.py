"""A service that has ended is started where a copy shows that it works and nothing changed."""

from hermes.app.changes.cause_revert import start_of_ended
from hermes.declared.experiments.host_programs import HostPrograms, HostService
from hermes.declared.experiments.root_cause import RootCause
from hermes.declared.experiments.suspects import Suspect
from hermes.declared.experiments.trial import Experiment, TrialOutcome, TrialResult
from hermes.declared.state import Item, ItemId, StateChange

COMMANDS = {"start": "supervisorctl start cache", "stop": "supervisorctl stop cache"}


def not_reproduced(outcome: TrialOutcome = "passes") -> RootCause:
    result = TrialResult(outcome=outcome, seconds=2.5)
    tried = Experiment(number=1, purpose="reproduce", reverted=(), kept=(), result=result)
    return RootCause(status="not-reproduced", experiments=(tried,))


def host(state: str = "failed", text: str = "") -> HostPrograms:
    cache = HostService(name="cache", state=state, commands=COMMANDS, settings_text=text)
    return HostPrograms(services=(cache, HostService(name="web", state="active")))


def changed(path: str) -> Suspect:
    change = StateChange(item=ItemId("file", path), before=Item("a", {}), after=Item("b", {}))
    return Suspect(change=change, score=1)


def test_one_that_works_on_an_unchanged_copy_is_started() -> None:
    found = start_of_ended(not_reproduced(), ["web", "cache"], host(), [])
    assert found is not None
    (step,) = found.steps
    assert (step.command, step.undo) == (COMMANDS["start"], COMMANDS["stop"])
    assert (found.units, found.causes, found.rehearsal_s) == (("cache",), ("service cache",), 2.5)
    assert "why it ended is not known" in found.mechanism


def test_one_that_runs_or_was_stopped_is_left_alone() -> None:
    for state in ("active", "inactive", "activating"):
        assert start_of_ended(not_reproduced(), ["cache"], host(state), []) is None


def test_one_that_fails_on_the_copy_is_not_started() -> None:
    for outcome in ("fails", "unclear"):
        assert start_of_ended(not_reproduced(outcome), ["cache"], host(), []) is None
    assert start_of_ended(RootCause(status="ruled-out"), ["cache"], host(), []) is None


def test_one_that_a_change_concerns_is_not_started() -> None:
    """Somebody may have ended it because of that: its data may be damaged."""
    programs = host(text="prices = /srv/cache/prices.txt")
    suspects = [changed("/srv/cache/prices.txt")]
    assert start_of_ended(not_reproduced(), ["cache"], programs, suspects) is None
    others = [changed("/etc/other/other.conf")]
    assert start_of_ended(not_reproduced(), ["cache"], programs, others) is not None
