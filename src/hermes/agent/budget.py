"""Spending limits that are checked before a call, not after.

The amount spent is the sum of the `ModelAnswered` events in the journal, so it holds over restarts
and over all processes of a home. What this process is about to spend is reserved until it is
journalled; other processes do not see it, so several at once may exceed a day's limit, each by the
calls it has under way.
"""

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime

import anyio
import msgspec

from hermes.agent.settings import LimitSettings
from hermes.core.errors import BudgetExceeded
from hermes.core.events.runs import ModelAnswered
from hermes.core.messages import Message, Usage, Value
from hermes.core.protocols import AsksOtherModels, Journal, Model, provides


class SpendingAccount(msgspec.Struct):
    """A running sum over the journal: of one family of runs, or of one day."""

    family: str = ""
    since: datetime | None = None
    last_position: int = 0
    spent: Usage = Usage()
    reserved: Usage = Usage()

    def covers(self, run: str) -> bool:
        return not self.family or run == self.family or run.startswith(f"{self.family}/")

    async def read(self, journal: Journal) -> None:
        async for recorded in journal.read(
            after=self.last_position, kinds=("model.answered",), since=self.since
        ):
            self.last_position = recorded.seq
            event = recorded.event
            if isinstance(event, ModelAnswered) and self.covers(event.run):
                self.spent += event.usage


class SpendingLimit(Value, frozen=True):
    account: SpendingAccount
    owner: str
    setting: str
    tokens: int | None = None
    usd: float | None = None


class SpendingBudget:
    def __init__(
        self,
        journal: Journal,
        limits: LimitSettings,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._journal = journal
        self._limits = limits
        self._now = now
        self._families: dict[str, SpendingAccount] = {}
        self._day = SpendingAccount()
        self._lock = anyio.Lock()

    def track(self, run: str, *, after: int) -> None:
        """Follow the spending of a run. No event before `after` belongs to it, so none is read."""
        self._families.setdefault(run, SpendingAccount(family=run, last_position=after))

    def forget(self, run: str) -> None:
        """The run and its subagents; their spending is in the journal."""
        for each in [each for each in self._families if each.partition("/")[0] == run]:
            del self._families[each]

    @asynccontextmanager
    async def reserve(
        self, run: str, usage: Usage, usd: float | None, *, own_tokens: int | None = None
    ) -> AsyncGenerator[None, None]:
        """Reserve `usage` while a call is made. Raises `BudgetExceeded` when it does not fit.

        `usd` None means that no price is known: money is then not checked, tokens are.
        """
        limits = list(self._limits_of(run, own_tokens))
        if not limits:
            yield
            return
        wanted = Usage(usage.input_tokens, usage.output_tokens, 0, usd or 0.0)
        async with self._lock:
            # Taken before reading: a call that is journalled meanwhile counts twice for a moment
            # rather than not at all.
            held = [limit.account.reserved for limit in limits]
            for limit in limits:
                await limit.account.read(self._journal)
            for limit, beside in zip(limits, held, strict=True):
                _check_limit(limit, beside, wanted, priced=usd is not None)
            _add_reserved(limits, wanted)
        try:
            yield
        finally:
            _add_reserved(
                limits, Usage(-wanted.input_tokens, -wanted.output_tokens, 0, -wanted.cost_usd)
            )

    @property
    def has_money_limit(self) -> bool:
        return self._limits.run_usd is not None or self._limits.day_usd is not None

    def _limits_of(self, run: str, own_tokens: int | None) -> Iterator[SpendingLimit]:
        limits, root = self._limits, run.partition("/")[0]
        if limits.run_tokens is not None or limits.run_usd is not None:
            yield SpendingLimit(
                self._family_account(root),
                "this run and its subagents",
                "agent.limits.run_",
                limits.run_tokens,
                limits.run_usd,
            )
        if limits.day_tokens is not None or limits.day_usd is not None:
            yield SpendingLimit(
                self._today_account(),
                "today (UTC), over all runs",
                "agent.limits.day_",
                limits.day_tokens,
                limits.day_usd,
            )
        if own_tokens is not None:
            yield SpendingLimit(
                self._family_account(run),
                "this subagent",
                "agent.limits.subagent_",
                own_tokens,
                None,
            )

    def _family_account(self, run: str) -> SpendingAccount:
        return self._families.setdefault(run, SpendingAccount(family=run))

    def _today_account(self) -> SpendingAccount:
        midnight = self._now().replace(hour=0, minute=0, second=0, microsecond=0)
        if self._day.since != midnight:
            self._day.since, self._day.spent = midnight, Usage()  # reservations stay
        return self._day


def expected_spending(
    model: Model,
    messages: Sequence[Message],
    tokens: int,
    output_tokens: int,
    price: Callable[[str, Usage], float | None],
) -> tuple[Usage, float | None]:
    """Return what one answer may take, with those that the model asks. None: a price is unknown."""
    one = Usage(tokens, output_tokens)
    names = model.models_to_ask(messages) if provides(model, AsksOtherModels) else (model.name,)
    prices = [price(name, one) for name in names]
    usd = None if None in prices else sum(each for each in prices if each is not None)
    return Usage(tokens * len(names), output_tokens * len(names)), usd


def _add_reserved(limits: list[SpendingLimit], usage: Usage) -> None:
    for account in {id(limit.account): limit.account for limit in limits}.values():
        account.reserved += usage


def _check_limit(limit: SpendingLimit, beside: Usage, wanted: Usage, *, priced: bool) -> None:
    spent = limit.account.spent
    if limit.tokens is not None and spent.tokens + beside.tokens + wanted.tokens > limit.tokens:
        raise BudgetExceeded(
            f"the limit of {limit.tokens:,} tokens for {limit.owner} stands before this call: "
            f"{spent.tokens:,} are spent, {beside.tokens:,} set aside for calls under way, and "
            f"this one may need {wanted.tokens:,}. Raise {limit.setting}tokens to go on."
        )
    if limit.usd is None:
        return
    if limit.usd <= spent.cost_usd or (
        priced and spent.cost_usd + beside.cost_usd + wanted.cost_usd > limit.usd
    ):
        raise BudgetExceeded(
            f"the limit of ${limit.usd:.2f} for {limit.owner} stands before this call: "
            f"${spent.cost_usd:.4f} is spent, ${beside.cost_usd:.4f} set aside for calls under "
            f"way, and this one may cost {_describe_cost(wanted, priced)}. "
            f"Raise {limit.setting}usd to go on."
        )


def _describe_cost(wanted: Usage, priced: bool) -> str:
    return f"${wanted.cost_usd:.4f}" if priced else "an amount that is not known"
