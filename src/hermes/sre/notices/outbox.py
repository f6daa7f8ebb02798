"""Brings every notice to every sink that should have it, whatever dies in between.

A try is written down before it is made. If we die before we could write how it ended, it is made
again, and says so: rather twice than never. A sink that is slow, dead or wrong holds up nobody
else, and what it could not be told is told to the others.
"""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import anyio
from msgspec.structs import replace

from hermes.core.bus import Bus
from hermes.core.errors import StoreError
from hermes.core.events.watching import NoticeQueued, NoticeSent, NoticeTried
from hermes.core.ids import new_id
from hermes.core.protocols import Recorded
from hermes.sre.notices.mail import Letter, Mail
from hermes.sre.notices.settings import NoticeSettings
from hermes.sre.notices.sink import Sink, Undelivered
from hermes.sre.report.markdown import one_line

RUN = "watch"
LONGEST = 60.0
"""Seconds between two tries, at most."""
UNDELIVERED = "undelivered"


class Outbox:
    """`hear` is given the stream; `run` sends until it is cancelled."""

    def __init__(self, bus: Bus, sinks: Sequence[Sink], settings: NoticeSettings) -> None:
        self._bus, self._sinks, self._settings = bus, tuple(sinks), settings
        self._mail = Mail()
        self._me = new_id("teller")
        self._since = datetime.now(UTC)
        self._seen = 0
        self._news = anyio.Event()
        self._not_before: dict[tuple[str, str], float] = {}

    def hear(self, recorded: Recorded) -> None:
        self._mail.apply(recorded)
        self.caught_up(recorded.seq)

    def caught_up(self, seq: int) -> None:
        self._seen = max(self._seen, seq)
        self._news.set()
        self._news = anyio.Event()

    async def reached(self, seq: int) -> None:
        """Return once the stream has been heard up to this number."""
        while self._seen < seq:
            await self._news.wait()

    @property
    def waiting(self) -> int:
        return sum(len(self._mail.waiting(sink.name)) for sink in self._sinks)

    async def until_empty(self) -> None:
        while self.waiting:
            await self._news.wait()

    async def run(self) -> None:
        async with anyio.create_task_group() as group:
            for sink in self._sinks:
                group.start_soon(self._serve, sink)

    async def _serve(self, sink: Sink) -> None:
        while True:
            news = self._news
            letter, pause = self._next(sink.name)
            if letter is None:
                with anyio.move_on_after(pause):
                    await news.wait()
            else:
                await self._bring(sink, letter)

    def _next(self, sink: str) -> tuple[Letter | None, float]:
        """The oldest whose turn it is: first of its lane, and not pausing after a failure."""
        now, soonest, met = anyio.current_time(), LONGEST, set[str]()
        for letter in self._mail.waiting(sink):
            if letter.lane in met:
                continue
            met.add(letter.lane)
            left = self._not_before.get((sink, letter.lane), 0.0) - now
            if left <= 0:
                return letter, 0.0
            soonest = min(soonest, left)
        return None, soonest

    async def _bring(self, sink: Sink, letter: Letter) -> None:
        if reason := self._pointless(sink.name, letter):
            await self._write(self._tried(sink, letter, error=reason, given_up=True))
            return
        repeated = letter.repeats(self._me)
        seq = await self._write(self._tried(sink, letter))
        if self._others(letter, seq):
            self._pause(sink, letter, self._settings.timeout * 2)
            return
        failed = await self._try(sink, letter.notice, repeated)
        if failed is None:
            sent = NoticeSent(
                run=letter.notice.run,
                notice=letter.notice.notice,
                sink=sink.name,
                repeated=repeated,
                tries=letter.tries + 1,
            )
            await self._write(sent)
        else:
            await self._failed(sink, letter, failed)

    async def _try(self, sink: Sink, notice: NoticeQueued, repeated: bool) -> Undelivered | None:
        limit = self._settings.timeout
        try:
            with anyio.fail_after(limit):
                await sink.send(notice, repeated)
        except Undelivered as error:
            return error
        except TimeoutError:
            return Undelivered(f"no answer within {limit:g} s", unsure=True)
        except Exception as error:  # noqa: BLE001 - one channel's fault must not silence the others
            return Undelivered(f"{type(error).__name__}: {error}", unsure=True)
        return None

    async def _failed(self, sink: Sink, letter: Letter, error: Undelivered) -> None:
        given_up = error.hopeless or letter.tries + 1 >= self._settings.tries
        self._pause(sink, letter, min(self._settings.pause * 2**letter.tries, LONGEST))
        if given_up and not letter.notice.notice.startswith(UNDELIVERED):
            await self._tell_others(sink, letter.notice, str(error))  # first: we may die now
        tried = self._tried(sink, letter, error=one_line(str(error), 300), given_up=given_up)
        await self._write(replace(tried, unsure=error.unsure))

    async def _tell_others(self, sink: Sink, notice: NoticeQueued, error: str) -> None:
        others = tuple(each.name for each in self._sinks if each is not sink)
        now = datetime.now(UTC)
        id = f"{UNDELIVERED}:{sink.name}:{now:%Y-%m-%dT%H}"  # once an hour is enough
        text = f"first lost: {notice.title}\nwhy: {one_line(error, 300)}"
        title = f"📪 {sink.name} cannot be told anything"
        await self._write(
            NoticeQueued(run=RUN, notice=id, about="health", title=title, text=text, sinks=others)
        )

    def _pointless(self, sink: str, letter: Letter) -> str:
        age = datetime.now(UTC) - letter.notice.at
        if age > timedelta(seconds=self._settings.stale):
            return "too old to be told"
        if letter.notice.about == "update" and self._mail.later(sink, letter):
            return "what came later tells more"
        return ""

    def _others(self, letter: Letter, mine: int) -> bool:
        """Another watch that lives was quicker. One that began before us and is silent is dead."""
        lease = timedelta(seconds=self._settings.timeout * 2)
        fresh = max(self._since, datetime.now(UTC) - lease)
        return any(
            each.by != self._me and each.seq < mine and each.at >= fresh for each in letter.begun
        )

    def _pause(self, sink: Sink, letter: Letter, seconds: float) -> None:
        self._not_before[sink.name, letter.lane] = anyio.current_time() + seconds

    def _tried(
        self, sink: Sink, letter: Letter, *, error: str = "", given_up: bool = False
    ) -> NoticeTried:
        notice = letter.notice
        return NoticeTried(
            run=notice.run,
            notice=notice.notice,
            sink=sink.name,
            error=error,
            given_up=given_up,
            by=self._me,
        )

    async def _write(self, event: NoticeQueued | NoticeTried | NoticeSent) -> int:
        """Until it is written and has come back to us: else it would be sent for ever."""
        pause, numbers = self._settings.pause, list[int]()
        while not numbers:
            try:
                numbers += await self._bus.publish(event)
            except StoreError:
                await anyio.sleep(pause)
                pause = min(pause * 2, LONGEST)
        await self.reached(numbers[-1])
        return numbers[-1]
