"""Keeps what a command prints within bounds: 1 GB of output costs no more memory than 200 KB."""

from hermes.core.messages import Value

HEAD = 100_000
TAIL = 100_000


class Capture:
    """The first and the last bytes of a stream; those between are only counted."""

    def __init__(self, head: int = HEAD, tail: int = TAIL) -> None:
        self._head_size, self._tail_size = head, tail
        self._head = bytearray()
        self._tail = bytearray()
        self._total = 0

    def feed(self, data: bytes) -> None:
        self._total += len(data)
        room = self._head_size - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 2 * self._tail_size:  # seldom, so that each byte moves about once
            del self._tail[: -self._tail_size]

    @property
    def dropped(self) -> int:
        return max(0, self._total - len(self._head) - self._tail_size)

    def text(self) -> str:
        dropped = self.dropped
        if not dropped:
            return bytes(self._head + self._tail).decode("utf-8", "replace")
        # A character cut in two by us is not the command's fault: leave its halves out.
        head = whole(bytes(self._head)).decode("utf-8", "replace")
        tail = bytes(self._tail[-self._tail_size :])
        while tail and len(tail) > self._tail_size - 3 and 0x80 <= tail[0] < 0xC0:
            tail = tail[1:]
        return f"{head}\n[… {dropped:,} bytes left out …]\n{tail.decode('utf-8', 'replace')}"


def whole(data: bytes) -> bytes:
    """Without the beginning of a last character that is not all there yet."""
    for length in range(1, min(4, len(data)) + 1):
        byte = data[-length]
        if byte >= 0xC0:
            needs = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-length] if length < needs else data
        if byte < 0x80:
            return data
    return data


class Piece(Value, frozen=True):
    """Some output, and where in the whole stream it begins."""

    start: int
    data: bytes


class Rolling:
    """The last bytes of an endless stream, and how much there was in all."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept = bytearray()
        self.total = 0

    def feed(self, data: bytes) -> None:
        self.total += len(data)
        self._kept += data[-self._size :]
        if len(self._kept) > self._size + self._size // 4:
            del self._kept[: -self._size]

    def since(self, position: int) -> Piece:
        """What is still there of the stream from `position` on."""
        kept = bytes(self._kept[-self._size :])
        first = self.total - len(kept)
        return Piece(max(position, first), kept[max(0, position - first) :])

    def lines(self) -> list[str]:
        """Whole lines; the first may be the rest of one whose beginning is gone."""
        return self.since(0).data.decode("utf-8", "replace").splitlines()
