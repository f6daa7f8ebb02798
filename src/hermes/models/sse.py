"""Reads server-sent events as providers really send them.

Lines may end in LF, CRLF or CR and may be cut anywhere, also within a character; comments and
pings keep the connection warm and say nothing. Only the data is of interest: both dialects write
into it what kind of event it is.
"""

from hermes.core.errors import MalformedReply

LONGEST = 4 * 1024 * 1024
"""Bytes of one event. A server that never ends a line must not fill our memory."""


LARGEST = 32 * 1024 * 1024
"""Bytes of an answer that is not streamed."""
ENDLESS = 256 * 1024 * 1024
"""Bytes of a whole stream, of which the words are a fiftieth."""


class AnswerParser:
    """Events, or one text from a server that does not stream: the first byte tells which."""

    def __init__(self) -> None:
        self._events: EventParser | None = None
        self._whole = bytearray()
        self._size = 0

    def feed(self, piece: bytes) -> list[bytes]:
        if self._events is None and not self._whole:
            start = piece.lstrip()[:1]
            if start and start not in b"{[<":
                self._events = EventParser()
        self._size += len(piece)
        limit = LARGEST if self._events is None else ENDLESS
        if self._size > limit:
            raise MalformedReply(f"the answer has more than {limit:,} bytes")
        if self._events is not None:
            return self._events.feed(piece)
        self._whole += piece
        return []

    def flush(self) -> list[bytes]:
        """What the end of the answer completed; an empty answer is one empty text."""
        return [bytes(self._whole)] if self._events is None else self._events.flush()


class EventParser:
    def __init__(self) -> None:
        self._size = 0
        self._pieces: list[bytes] = []
        self._data: list[bytes] = []
        self._held = 0
        self._ping = False

    def feed(self, piece: bytes) -> list[bytes]:
        """The data of each event that this piece completed."""
        self._size += len(piece)
        if self._size > LONGEST:
            raise MalformedReply(f"the answer has an event of more than {LONGEST:,} bytes")
        self._pieces.append(piece)
        if b"\n" not in piece and b"\r" not in piece:
            return []
        text = b"".join(self._pieces)
        held = b"\r" if text.endswith(b"\r") else b""  # its LF may still be on the way
        if b"\r" in text:
            text = text.removesuffix(held).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        *whole, rest = text.split(b"\n")
        self._pieces = [rest + held]
        events = [event for line in whole if (event := self._line(line)) is not None]
        self._size = len(self._pieces[0]) + self._held
        return events

    def flush(self) -> list[bytes]:
        """What the end of the stream left unfinished: some servers omit the last empty line."""
        last = b"".join(self._pieces).rstrip(b"\r")
        self._pieces = []
        ends = [self._line(last) if last else None, self._line(b"")]
        return [event for event in ends if event is not None]

    def _line(self, line: bytes) -> bytes | None:
        if not line:
            data, ping = b"\n".join(self._data), self._ping
            self._data, self._held, self._ping = [], 0, False
            return data if data and not ping else None
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" "))
            self._held += len(line)
        elif name == b"event":
            self._ping = value.strip() == b"ping"
        return None
