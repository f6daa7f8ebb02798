"""The gate: documents on one side, an action on the other, a verdict in under a millisecond."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from hermes.core.actions import Action
from hermes.policy.action import Reader, Situation
from hermes.policy.deed import Deed
from hermes.policy.judgement import RuleBook, judge, near_misses
from hermes.policy.rates import Rates
from hermes.policy.verdict import Verdict

Situate = Callable[[Action], Situation]


def _local_time() -> datetime:
    return datetime.now().astimezone()


class DocumentPolicy:
    """A `Policy`. `decide` changes nothing; `started` is told what was really done."""

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

    def decide(self, action: Action) -> Verdict:
        return self.judge(self.read(action))

    def read(self, action: Action) -> Deed:
        """The action as the rules see it."""
        return self.reader.read(action, self._situate(action))

    def judge(self, deed: Deed) -> Verdict:
        return judge(self.book, deed, now=self.clock(), rates=self._rates)

    def examine(self, action: Action) -> Verdict:
        """The verdict with the rules that nearly matched."""
        deed, now = self.read(action), self.clock()
        verdict = judge(self.book, deed, now=now, rates=self._rates)
        return msgspec.structs.replace(verdict, near=near_misses(self.book, deed, now))

    def started(self, action: Action) -> None:
        """It is being done: counts towards rate limits, and what it writes is remembered."""
        deed = self.read(action)
        limits = {rule.name: rule.rate.max for rule in self.book.rules if rule.rate}
        for rule, key in self.judge(deed).counted:
            self._rates.note(rule, key, most=limits[rule])
        self.reader.started(action, deed)

    def forget(self, run: str) -> None:
        """A run is over: what it wrote and typed no longer matters."""
        self.reader.remembered.forget(run)
