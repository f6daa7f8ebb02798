"""What has been queued, tried and sent, by sink: a fold over the stream, the outbox's memory."""

from collections.abc import Sequence
from datetime import datetime

from hermes.core.events.watching import NoticeQueued, NoticeSent, NoticeTried
from hermes.core.messages import Value
from hermes.core.protocols import Recorded

KINDS = ("notice.queued", "notice.tried", "notice.sent")


class Try(Value, frozen=True):
    """Begun, and nobody knows yet how it ended."""

    seq: int
    by: str
    at: datetime


class Letter:
    """One notice on its way to one sink."""

    def __init__(self, seq: int, notice: NoticeQueued) -> None:
        self.seq, self.notice = seq, notice
        self.tries = 0
        self.begun: list[Try] = []
        self.unsure = False
        """A try failed in such a way that it may have arrived."""

    @property
    def lane(self) -> str:
        """What must arrive in order: everything about one incident."""
        return self.notice.incident or self.notice.notice

    def repeats(self, me: str) -> bool:
        """Somebody began to send it and never wrote how that ended, or could not tell."""
        return self.unsure or any(each.by != me for each in self.begun)


class Mail:
    def __init__(self) -> None:
        self._letters: dict[str, dict[str, Letter]] = {}
        self._known: set[str] = set()

    def apply(self, recorded: Recorded) -> None:
        match recorded.event:
            case NoticeQueued() as event:
                self._queued(recorded.seq, event)
            case NoticeTried() as event:
                if letter := self.letter(event.sink, event.notice):
                    self._tried(letter, recorded.seq, event)
            case NoticeSent() as event:
                self._letters.get(event.sink, {}).pop(event.notice, None)
            case _:
                pass

    def letter(self, sink: str, notice: str) -> Letter | None:
        """None when it is settled, or was never for this sink."""
        return self._letters.get(sink, {}).get(notice)

    def waiting(self, sink: str) -> Sequence[Letter]:
        """In the order in which they were queued."""
        return tuple(self._letters.get(sink, {}).values())

    def later(self, sink: str, letter: Letter) -> bool:
        """Something newer about the same incident waits, too."""
        return any(
            each.seq > letter.seq and each.lane == letter.lane
            for each in self._letters.get(sink, {}).values()
        )

    def _queued(self, seq: int, event: NoticeQueued) -> None:
        if event.notice in self._known:  # two watches had the same thought
            return
        self._known.add(event.notice)
        for sink in event.sinks:
            self._letters.setdefault(sink, {})[event.notice] = Letter(seq, event)

    def _tried(self, letter: Letter, seq: int, event: NoticeTried) -> None:
        if event.given_up:
            del self._letters[event.sink][event.notice]
        elif event.error:
            letter.tries += 1
            letter.unsure = letter.unsure or event.unsure
            letter.begun = [each for each in letter.begun if each.by != event.by]
        else:
            letter.begun.append(Try(seq, event.by, event.at))
