"""Decides on actions by the rules of policy documents."""

from collections import OrderedDict
from collections.abc import Callable, Container
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from hermes.core.actions import Action
from hermes.core.messages import ToolCall
from hermes.policy.actions.action_effects import ActionEffects
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.rules.evaluation import RateCounter, RuleSet, evaluate, near_misses, record_rates
from hermes.policy.rules.rule import PolicyVerdict

if TYPE_CHECKING:
    from hermes.policy.taint.tracker import TaintTracker

_MAX_PENDING_ACTIONS = 64
"""Decided actions whose effects are kept until they start, so that they are read only once."""
ContextProvider = Callable[[Action], ActionContext]


def _local_time() -> datetime:
    return datetime.now().astimezone()


class DocumentPolicy:
    """Implements `Policy`, `TracksActions` and `TracksText`.

    `decide` changes nothing; `record_start` and `record_text` remember what a run did and read.
    """

    def __init__(
        self,
        rule_set: RuleSet,
        reader: ActionReader,
        *,
        context_of: ContextProvider | None = None,
        clock: Callable[[], datetime] = _local_time,
        rates: RateCounter | None = None,
    ) -> None:
        self.rule_set = rule_set
        self.reader = reader
        self._context_of = context_of or (lambda action: ActionContext())
        self.clock = clock
        self._rates = rates or RateCounter()
        self._active_runs: Container[str] = frozenset()
        self._taint: TaintTracker | None = None
        self._pending_actions: OrderedDict[str, tuple[Action, ActionEffects]] = OrderedDict()
        self._latest: datetime | None = None

    def set_active_runs(self, runs: Container[str]) -> None:
        """Remember what these runs write and read until `forget` is called for them."""
        self._active_runs = self.reader.run_memory.active_runs = runs

    def decide(self, action: Action) -> PolicyVerdict:
        return self.evaluate(self.read_effects(action))

    def read_effects(self, action: Action) -> ActionEffects:
        """The effects that the rules match."""
        effects = self.reader.read(action, self._context_of(action))
        carried = self._taint.find_tainted_words(action, effects) if self._taint is not None else ""
        if carried:
            effects = msgspec.structs.replace(effects, tainted=True, carried=carried)
        self._pending_actions[action.call.id] = (action, effects)
        if len(self._pending_actions) > _MAX_PENDING_ACTIONS:
            self._pending_actions.popitem(last=False)
        return effects

    def evaluate(self, effects: ActionEffects) -> PolicyVerdict:
        now = self.clock()
        return evaluate(self._rule_set_at(now), effects, now=now, rates=self._rates)

    def examine(self, action: Action) -> PolicyVerdict:
        """The verdict, with the rules that nearly matched."""
        effects, now = self.read_effects(action), self.clock()
        verdict = evaluate(self._rule_set_at(now), effects, now=now, rates=self._rates)
        return msgspec.structs.replace(verdict, near=near_misses(self.rule_set, effects, now))

    def record_start(self, action: Action) -> None:
        """Count the action towards rate limits, and remember what it writes."""
        judged, effects = self._pending_actions.pop(action.call.id, (None, None))
        if effects is None or judged != action:  # otherwise reuse the effects that were decided on
            effects = self.read_effects(action)
        record_rates(self.rule_set, effects, now=self.clock(), rates=self._rates)
        self._remember(action, effects)

    def record_earlier_action(self, action: Action) -> None:
        """Remember what an action wrote in an earlier process; it counts towards no rate limit."""
        self._remember(action, self.read_effects(action))

    def record_text(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        """Remember a text that the run has seen: of a person, or the result of a tool call."""
        if self._taint is None:
            self._taint = _open_taint_tracker(self._active_runs)
        self._taint.record_text(run, text, trusted=trusted, call=call)

    def forget(self, run: str) -> None:
        """Discard what a run wrote and read; it is over."""
        self.reader.run_memory.forget(run)
        if self._taint is not None:
            self._taint.forget(run)

    def _rule_set_at(self, now: datetime) -> RuleSet:
        """Setting the clock back does not reactivate an expired exception."""
        latest = self._latest
        if latest is None or now >= latest:
            self._latest = now
            return self.rule_set
        exceptions = tuple(
            exception for exception in self.rule_set.exceptions if exception.expires > latest
        )
        return replace(self.rule_set, exceptions=exceptions)

    def _remember(self, action: Action, effects: ActionEffects) -> None:
        self.reader.record_start(action, effects)
        if self._taint is not None:
            self._taint.record_start(action, effects)


def _open_taint_tracker(active_runs: Container[str]) -> "TaintTracker":
    """Imported with the first text: its patterns take a quarter of the policy's import time."""
    taint: TaintTracker = import_module("hermes.policy.taint.tracker").TaintTracker(active_runs)
    return taint
