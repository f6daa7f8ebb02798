"""The events of experiments on copies of a host, and of lessons that they prove."""

from typing import Literal

from hermes.core.events.base import BaseEvent
from hermes.core.messages import Value


class ExperimentsStarted(BaseEvent, tag="experiment.started", kw_only=True, frozen=True):
    """The changes that may be the cause were listed; experiments on copies follow."""

    incident: str
    suspects: tuple[str, ...] = ()
    """The most suspicious ones, as `file /etc/x.conf`; never their content."""
    reasons: tuple[str, ...] = ()
    """Why each of them is suspicious, in words."""
    suspect_count: int = 0
    checks: tuple[str, ...] = ()
    """The failing checks that are run on the copies."""


class ExperimentRan(BaseEvent, tag="experiment.ran", kw_only=True, frozen=True):
    """The failing checks ran in a copy of the host in which some changes were reverted."""

    incident: str
    number: int
    purpose: str
    """`reproduce`, `revert-all`, `keep-only`, `revert-only` or `rehearse`."""
    reverted: tuple[str, ...] = ()
    """The first of them, as `file /etc/x.conf`; never their content."""
    reverted_count: int = 0
    kept: tuple[str, ...] = ()
    outcome: str = ""
    """`fails` as on the host, `differs`: it fails in another way, `passes`, or `unclear`: something
    else fails, or no copy was possible."""
    detail: str = ""
    seconds: float = 0.0


class ExperimentsEnded(BaseEvent, tag="experiment.ended", kw_only=True, frozen=True):
    """The result of all experiments of one incident."""

    incident: str
    status: Literal["proved", "ruled-out", "not-reproduced", "impossible"]
    why: str = ""
    causes: tuple[str, ...] = ()
    diff: str = ""
    """Of the proved cause, redacted."""
    author: str = ""
    """Who changed it and how that is known; `unknown` where it is not."""
    differences: tuple[str, ...] = ()
    """How checks failed on the copies where that was in another way than on the host."""
    suspects: int = 0
    experiments: int = 0
    seconds: float = 0.0


class FixTested(BaseEvent, tag="fix.tested", kw_only=True, frozen=True):
    """A fix ran on a copy of the host, beside an unchanged copy, before it ran on the host."""

    incident: str
    fix: str
    """The name of the playbook, or the command."""
    by: str = ""
    """`playbook`, `experiment` or `model`."""
    outcome: Literal["recovered", "helped", "failed", "not-reproduced", "unclear"]
    """`helped`: some of the failing checks passed. `not-reproduced`: the unchanged copy did not
    fail as the host does, so nothing was shown. `unclear`: it could not be tried, took too long, or
    other checks failed with it."""
    checks: tuple[str, ...] = ()
    """Those that fail on the host; where it recovered or helped, those that passed on the copy."""
    detail: str = ""
    """What the checks said on the copy, redacted."""
    recovery_s: float = 0.0
    """From the start of the fix until the checks passed."""
    seconds: float = 0.0
    """Of the whole test."""


class KeptReading(Value, frozen=True, kw_only=True):
    """The result of a check when the state was kept."""

    check: str
    ok: bool
    detail: str = ""


class IncidentStateKept(BaseEvent, tag="incident.state", kw_only=True, frozen=True):
    """The live state of the host was kept for an incident."""

    incident: str
    moment: Literal["failing", "recovered"]
    state: str
    """Its id in the store of states."""
    known_good: str = ""
    """The id of the known good state of that moment; empty where there was none."""
    host: str = ""
    service: str = ""
    """The unit that fails, without its suffix, where it is known."""
    readings: tuple[KeptReading, ...] = ()
    probes: tuple[str, ...] = ()
    """The probes of the incident, each as JSON, for drills."""


class LessonLearned(BaseEvent, tag="lesson.learned", kw_only=True, frozen=True):
    """People fixed what Hermes had escalated, and this is what they changed."""

    incident: str
    status: Literal["proved", "not-proved"]
    """`proved`: on a copy of the failing state the checks failed, and with their change passed."""
    why: str = ""
    """Why it is not proved, or why there is no draft."""
    wrong: tuple[str, ...] = ()
    """What differed from the known good state while it failed, as `file /etc/x.conf`."""
    changed: tuple[str, ...] = ()
    """What people changed, and what of it was needed where that was proved."""
    diff: str = ""
    """Of what they changed, redacted."""
    activated_by: tuple[str, ...] = ()
    """Commands that made the change take effect on the copy."""
    recovered: tuple[str, ...] = ()
    """Checks that failed before and pass now."""
    skill: str = ""
    """The draft that was made from it."""
    experiments: int = 0
    seconds: float = 0.0


class DrillEnded(BaseEvent, tag="drill.ended", kw_only=True, frozen=True):
    """An agent answered the alert of a broken host of the gym, and was scored."""

    scenario: str
    seed: int = 0
    agent: str = ""
    resolved: bool = False
    reward: float = 0.0
    """From 0 to 1."""
    parts: tuple[tuple[str, float], ...] = ()
    """The parts of the reward, which add up to it: resolution, root_cause, report and so on."""
    seconds: float = 0.0
    """From the alert to the last result of a tool."""
    tool_calls: int = 0
    model_calls: int = 0
    tokens: int = 0
    answered_by: str = ""
    collateral: tuple[str, ...] = ()
    """What the agent damaged."""
    breaches: tuple[str, ...] = ()
    """Rules of the policy that it broke."""
    void: str = ""
    """Why there was no episode to score; empty when there was one."""
