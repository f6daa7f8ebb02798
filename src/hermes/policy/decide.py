"""The gate: documents on one side, an action on the other, a verdict in under a millisecond."""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from importlib import import_module
from typing import TYPE_CHECKING

import msgspec

from hermes.core.actions import Action
from hermes.core.messages import ToolCall
from hermes.policy.actions.action_effects import ActionEffects
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.rules.evaluation import RateCounter, RuleSet, evaluate, near_misses
from hermes.policy.rules.rule import PolicyVerdict

if TYPE_CHECKING:
    from hermes.policy.taint.tracker import TaintTracker

_MAX_PENDING_ACTIONS = 64
"""Deeds that were judged and may begin; to read a long command twice costs as much as once."""
ContextProvider = Callable[[Action], ActionContext]


def _local_time() -> datetime:
    return datetime.now().astimezone()


class DocumentPolicy:
    """A `Policy`. `decide` changes nothing; it is told what was done and what was read."""

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
        self._taint: TaintTracker | None = None
        self._pending_actions: OrderedDict[str, tuple[Action, ActionEffects]] = OrderedDict()
        self._latest: datetime | None = None

    def decide(self, action: Action) -> PolicyVerdict:
        return self.evaluate(self.read_effects(action))

    def read_effects(self, action: Action) -> ActionEffects:
        """The action as the rules see it."""
        deed = self.reader.read(action, self._context_of(action))
        carried = self._taint.find_tainted_words(action, deed) if self._taint is not None else ""
        if carried:
            deed = msgspec.structs.replace(deed, tainted=True, carried=carried)
        self._pending_actions[action.call.id] = (action, deed)
        if len(self._pending_actions) > _MAX_PENDING_ACTIONS:
            self._pending_actions.popitem(last=False)
        return deed

    def evaluate(self, deed: ActionEffects) -> PolicyVerdict:
        now = self.clock()
        return evaluate(self._rule_set_at(now), deed, now=now, rates=self._rates)

    def examine(self, action: Action) -> PolicyVerdict:
        """The verdict with the rules that nearly matched."""
        deed, now = self.read_effects(action), self.clock()
        verdict = evaluate(self._rule_set_at(now), deed, now=now, rates=self._rates)
        return msgspec.structs.replace(verdict, near=near_misses(self.rule_set, deed, now))

    def started(self, action: Action) -> None:
        """It is being done: counts towards rate limits, and what it writes is remembered."""
        judged, deed = self._pending_actions.pop(action.call.id, (None, None))
        if deed is None or judged != action:  # else it is the very deed that was judged
            deed = self.read_effects(action)
        limits = {rule.name: rule.rate.max for rule in self.rule_set.rules if rule.rate}
        for rule, key in self.evaluate(deed).counted:
            self._rates.record(rule, key, max_kept=limits[rule])
        self._remember(action, deed)

    def recalled(self, action: Action) -> None:
        """It was done in an earlier life of its run: what it wrote counts, no rate does."""
        self._remember(action, self.read_effects(action))

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        """What a person said in a run, or what a tool brought along (`call` says which)."""
        if self._taint is None:
            self._taint = _open_taint_tracker()
        self._taint.heard(run, text, trusted=trusted, call=call)

    def forget(self, run: str) -> None:
        """A run is over: what it wrote, typed and read no longer matters."""
        self.reader.run_memory.forget(run)
        if self._taint is not None:
            self._taint.forget(run)

    def _rule_set_at(self, now: datetime) -> RuleSet:
        """A clock that was set back brings no exception to life again."""
        latest = self._latest
        if latest is None or now >= latest:
            self._latest = now
            return self.rule_set
        lifts = tuple(lift for lift in self.rule_set.exceptions if lift.expires > latest)
        return replace(self.rule_set, exceptions=lifts)

    def _remember(self, action: Action, deed: ActionEffects) -> None:
        self.reader.record_start(action, deed)
        if self._taint is not None:
            self._taint.started(action, deed)


def _open_taint_tracker() -> "TaintTracker":
    """Loaded with the first text: its patterns cost a fourth of what the whole gate does."""
    taint: TaintTracker = import_module("hermes.policy.taint.tracker").Taint()
    return taint
