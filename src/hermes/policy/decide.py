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
from hermes.policy.action import Reader, Situation
from hermes.policy.deed import Deed
from hermes.policy.judgement import RuleBook, judge, near_misses
from hermes.policy.rates import Rates
from hermes.policy.verdict import Verdict

if TYPE_CHECKING:
    from hermes.policy.taint import Taint

_UNDER_WAY = 64
"""Deeds that were judged and may begin; to read a long command twice costs as much as once."""
Situate = Callable[[Action], Situation]


def _local_time() -> datetime:
    return datetime.now().astimezone()


class DocumentPolicy:
    """A `Policy`. `decide` changes nothing; it is told what was done and what was read."""

    def __init__(
        self,
        book: RuleBook,
        reader: Reader,
        *,
        situate: Situate | None = None,
        clock: Callable[[], datetime] = _local_time,
        rates: Rates | None = None,
    ) -> None:
        self.book = book
        self.reader = reader
        self._situate = situate or (lambda action: Situation())
        self.clock = clock
        self._rates = rates or Rates()
        self._taint: Taint | None = None
        self._just_read: OrderedDict[str, tuple[Action, Deed]] = OrderedDict()
        self._latest: datetime | None = None

    def decide(self, action: Action) -> Verdict:
        return self.judge(self.read(action))

    def read(self, action: Action) -> Deed:
        """The action as the rules see it."""
        deed = self.reader.read(action, self._situate(action))
        carried = self._taint.carried(action, deed) if self._taint is not None else ""
        if carried:
            deed = msgspec.structs.replace(deed, tainted=True, carried=carried)
        self._just_read[action.call.id] = (action, deed)
        if len(self._just_read) > _UNDER_WAY:
            self._just_read.popitem(last=False)
        return deed

    def judge(self, deed: Deed) -> Verdict:
        now = self.clock()
        return judge(self._book_at(now), deed, now=now, rates=self._rates)

    def examine(self, action: Action) -> Verdict:
        """The verdict with the rules that nearly matched."""
        deed, now = self.read(action), self.clock()
        verdict = judge(self._book_at(now), deed, now=now, rates=self._rates)
        return msgspec.structs.replace(verdict, near=near_misses(self.book, deed, now))

    def started(self, action: Action) -> None:
        """It is being done: counts towards rate limits, and what it writes is remembered."""
        judged, deed = self._just_read.pop(action.call.id, (None, None))
        if deed is None or judged != action:  # else it is the very deed that was judged
            deed = self.read(action)
        limits = {rule.name: rule.rate.max for rule in self.book.rules if rule.rate}
        for rule, key in self.judge(deed).counted:
            self._rates.note(rule, key, most=limits[rule])
        self._remember(action, deed)

    def recalled(self, action: Action) -> None:
        """It was done in an earlier life of its run: what it wrote counts, no rate does."""
        self._remember(action, self.read(action))

    def heard(self, run: str, text: str, trusted: bool, call: ToolCall | None = None) -> None:
        """What a person said in a run, or what a tool brought along (`call` says which)."""
        if self._taint is None:
            self._taint = _open_taint()
        self._taint.heard(run, text, trusted=trusted, call=call)

    def forget(self, run: str) -> None:
        """A run is over: what it wrote, typed and read no longer matters."""
        self.reader.remembered.forget(run)
        if self._taint is not None:
            self._taint.forget(run)

    def _book_at(self, now: datetime) -> RuleBook:
        """A clock that was set back brings no exception to life again."""
        latest = self._latest
        if latest is None or now >= latest:
            self._latest = now
            return self.book
        lifts = tuple(lift for lift in self.book.lifts if lift.expires > latest)
        return replace(self.book, lifts=lifts)

    def _remember(self, action: Action, deed: Deed) -> None:
        self.reader.started(action, deed)
        if self._taint is not None:
            self._taint.started(action, deed)


def _open_taint() -> "Taint":
    """Loaded with the first text: its patterns cost a fourth of what the whole gate does."""
    taint: Taint = import_module("hermes.policy.taint").Taint()
    return taint
