"""Cuts an answer into Markdown blocks as it is written: what is whole can be set nicely."""


class Blocks:
    """A block ends at a blank line, or where its code fence closes."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._unfinished = ""
        self._fence = ""

    @property
    def rest(self) -> str:
        """What has been said and belongs to no whole block yet."""
        return "".join(self._lines) + self._unfinished

    def feed(self, text: str) -> list[str]:
        *lines, self._unfinished = (self._unfinished + text).split("\n")
        return [block for line in lines if (block := self._line(line))]

    def flush(self) -> str:
        rest = self.rest.strip("\n")
        self._lines, self._unfinished, self._fence = [], "", ""
        return rest if rest.strip() else ""

    def _line(self, line: str) -> str:
        bare = line.strip()
        if self._fence:
            self._lines.append(line + "\n")
            closes = len(bare) >= len(self._fence) and not bare.strip(self._fence[0])
            return self._take() if closes else ""
        if not bare:
            return self._take()
        self._lines.append(line + "\n")
        if bare.startswith(("```", "~~~")):
            self._fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        return ""

    def _take(self) -> str:
        block = "".join(self._lines).rstrip("\n")
        self._lines, self._fence = [], ""
        return block
