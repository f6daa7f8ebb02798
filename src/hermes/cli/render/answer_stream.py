"""Cuts an answer into Markdown blocks as it is written: what is whole can be set nicely."""

from typing import Literal

from hermes.cli.render.terminal_text import clean
from hermes.core.messages import CompletionDelta, Message, Value


class MarkdownBlockSplitter:
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
            return self._take_block() if closes else ""
        if not bare:
            return self._take_block()
        self._lines.append(line + "\n")
        if bare.startswith(("```", "~~~")):
            self._fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
        return ""

    def _take_block(self) -> str:
        block = "".join(self._lines).rstrip("\n")
        self._lines, self._fence = [], ""
        return block


FragmentKind = Literal["text", "reasoning", "tool", "note", "error", "usage"]


class OutputFragment(Value, frozen=True):
    """Something to print. Raw text and thoughts are fragments; everything else is whole lines."""

    kind: FragmentKind
    text: str


class AnswerStream:
    """`whole` waits for Markdown blocks; without it the text flows as it comes."""

    def __init__(self, *, block_mode: bool, reasoning: bool) -> None:
        self.block_mode = block_mode
        self.reasoning = reasoning
        self._answer, self._thought = MarkdownBlockSplitter(), MarkdownBlockSplitter()
        self._said = self._thinking = False
        """Something of the answer, or of a thought, now being written has been shown."""
        self._open_line = False
        self._incomplete = False

    @property
    def pending_text(self) -> str:
        """What is being written and was not yet given out."""
        return self._answer.rest or self._thought.rest

    def feed(self, delta: CompletionDelta) -> list[OutputFragment]:
        if self._incomplete:
            return []
        pieces: list[OutputFragment] = []
        if delta.reasoning and self.reasoning:
            self._thinking = True
            pieces += self._emit("reasoning", self._thought, clean(delta.reasoning))
        if delta.text:
            pieces += self._end_thought()
            self._said = True
            pieces += self._emit("text", self._answer, clean(delta.text))
        return pieces

    def complete(self, message: Message) -> list[OutputFragment]:
        """The whole message is known: give out what streaming did not."""
        self._incomplete = False
        missing = CompletionDelta(
            "" if self._said else message.text,
            "" if self._said or self._thinking else message.reasoning,
        )
        return [*self.feed(missing), *self.finish()]

    def discard_stream(self) -> None:
        """Pieces went by unseen: wait for the whole message and give that out."""
        self._incomplete = True
        self._said = self._thinking = False
        self._answer, self._thought = MarkdownBlockSplitter(), MarkdownBlockSplitter()

    def finish(self) -> list[OutputFragment]:
        """Something else comes next: end what is open."""
        pieces = [*self._end_thought(), *self._end("text", self._answer)]
        self._said = False
        return pieces

    def _end_thought(self) -> list[OutputFragment]:
        if not self._thinking:
            return []
        self._thinking = False
        return self._end("reasoning", self._thought)

    def _emit(
        self, kind: FragmentKind, blocks: MarkdownBlockSplitter, text: str
    ) -> list[OutputFragment]:
        if self.block_mode:
            return [OutputFragment(kind, block) for block in blocks.feed(text)]
        if text:
            self._open_line = not text.endswith("\n")
        return [OutputFragment(kind, text)] if text else []

    def _end(self, kind: FragmentKind, blocks: MarkdownBlockSplitter) -> list[OutputFragment]:
        if self.block_mode:
            rest = blocks.flush()
            return [OutputFragment(kind, rest)] if rest else []
        ends = [OutputFragment(kind, "\n")] if self._open_line else []
        self._open_line = False
        return ends
