"""A background process reached by errands: it prints to a file, and they bring the news."""

from hermes.core.errors import PlaceFailed
from hermes.environments.errands.errand import LOOK, WINDOW, Answer, Errands

_FAR = 8 * 1024 * 1024
"""So far behind, reading everything would only fall back further: go on near the end."""


class Course:
    """What all readers of one process know: how it ended, and how much it had printed."""

    def __init__(self, grace: float) -> None:
        self.grace = grace
        """Seconds between asking it to end and killing it."""
        self.ended = False
        self.code: int | None = None
        self.size = 0

    def note(self, answer: Answer) -> None:
        self.size = max(self.size, answer.size)
        if (answer.code is not None or answer.gone) and not self.ended:
            self.ended, self.code = True, answer.code


class ErrandProcess:
    """Numbers of processes mean nothing outside: `pid` is None."""

    pid: int | None = None

    def __init__(self, errands: Errands, handle: str, *, terminal: bool, course: Course) -> None:
        self.handle = handle
        self.course = course
        self._errands, self._terminal = errands, terminal
        self._position = max(0, course.size - WINDOW)

    def again(self) -> "ErrandProcess":
        """The same process for another reader, from the oldest output that is kept."""
        return ErrandProcess(
            self._errands, self.handle, terminal=self._terminal, course=self.course
        )

    async def output(self) -> bytes:
        while True:
            answer = await self._errands.send(
                "listen", self.handle, self._position, LOOK * 1000, waits=LOOK
            )
            self.course.note(answer)
            behind = answer.size - self._position
            if behind > _FAR:
                self._position += behind - WINDOW
                return f"\n[… {behind - WINDOW:,} bytes came too fast to be kept …]\n".encode()
            if answer.data:
                self._position += len(answer.data)
                return answer.data
            if self.course.ended:
                if not answer.gone:
                    await self._errands.send("forget", self.handle)
                return b""

    async def write(self, data: bytes) -> None:
        """Enter on a terminal is a carriage return: line ends are sent as such."""
        if self._terminal:
            data = data.replace(b"\r\n", b"\r").replace(b"\n", b"\r")
        await self._errands.send("feed", self.handle, stdin=data)

    async def wait(self) -> int | None:
        """None when the place went down with it."""
        try:
            while not self.course.ended:
                answer = await self._errands.send("wait", self.handle, LOOK * 1000, waits=LOOK)
                self.course.note(answer)
        except PlaceFailed:
            return None
        return self.course.code

    async def kill(self) -> None:
        grace = self.course.grace
        answer = await self._errands.send("kill", self.handle, int(grace * 10), waits=grace)
        self.course.note(answer)
