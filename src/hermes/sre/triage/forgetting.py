"""Keeps what triage knows small: alerts that are over and belong to nothing are dropped in time."""

from datetime import datetime, timedelta

from hermes.sre.triage.ledger import Ledger
from hermes.sre.triage.voice import Voice

EVERY = timedelta(seconds=60)
SPARE = 0.9
"""So much of the limit is kept when it is reached: else each alert more would cost a search."""


class Forgetting:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._last: datetime | None = None
        self._full = ledger.settings.most

    def from_time_to_time(self, now: datetime) -> None:
        if self._last is not None and timedelta() <= now - self._last < EVERY:
            return
        self._last = now
        self._old_affairs(now)
        keep = timedelta(seconds=self._ledger.settings.keep)
        for voice in list(self._ledger.voices.values()):
            if now - voice.last > keep and not self._in_use(voice):
                self._drop(voice)
        self._ledger.past.forget(now)
        self._ledger.calendar.forget(now)

    def when_full(self) -> None:
        """The oldest go first. Who waits, or fires and is kept quiet, would be lost: they stay."""
        voices, most = self._ledger.voices, self._ledger.settings.most
        if len(voices) <= self._full:
            return
        free = [e for e in voices.values() if not e.waiting and not (e.stretch and e.firing)]
        free.sort(key=lambda each: (self._in_use(each), each.last))
        for voice in free[: len(voices) - int(most * SPARE)]:
            self._drop(voice)
        self._full = max(most, int(len(voices) / SPARE))

    def _in_use(self, voice: Voice) -> bool:
        affair = self._ledger.affair_of(voice)
        held = affair is not None and affair.holds
        return held or bool(voice.waiting) or bool(voice.stretch)

    def _drop(self, voice: Voice) -> None:
        affair = self._ledger.affair_of(voice)
        if affair is not None:
            affair.members.discard(voice.fingerprint)
            affair.lost += voice.firing
        self._ledger.muted.pop(voice.fingerprint, None)
        self._ledger.released.pop(voice.fingerprint, None)
        del self._ledger.voices[voice.fingerprint]

    def _old_affairs(self, now: datetime) -> None:
        settings = self._ledger.settings
        span = timedelta(seconds=max(settings.settle, settings.hush, settings.reopen) + 60)
        for id, affair in list(self._ledger.affairs.items()):
            if not affair.holds and affair.over_at is not None and now - affair.over_at > span:
                del self._ledger.affairs[id]
                for fingerprint in affair.members:
                    voice = self._ledger.voices.get(fingerprint)
                    if voice is not None and voice.incident == id:
                        voice.incident = ""
