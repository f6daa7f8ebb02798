"""An answer while it is being written: pieces of text and of thought, raw or as whole blocks."""

from typing import Literal

from hermes.cli.render_blocks import Blocks
from hermes.cli.render_safe import clean
from hermes.core.messages import Delta, Message, Value

Kind = Literal["text", "reasoning", "tool", "note", "error", "usage"]


class Piece(Value, frozen=True):
    """Something to print. Raw text and thoughts are fragments; everything else is whole lines."""

    kind: Kind
    text: str


class Writing:
    """`whole` waits for Markdown blocks; without it the text flows as it comes."""

    def __init__(self, *, whole: bool, reasoning: bool) -> None:
        self.whole = whole
        self.reasoning = reasoning
        self._answer, self._thought = Blocks(), Blocks()
        self._said = self._thinking = False
        """Something of the answer, or of a thought, now being written has been shown."""
        self._open_line = False
        self._holes = False

    @property
    def live(self) -> str:
        """What is being written and was not yet given out."""
        return self._answer.rest or self._thought.rest

    def feed(self, delta: Delta) -> list[Piece]:
        if self._holes:
            return []
        pieces: list[Piece] = []
        if delta.reasoning and self.reasoning:
            self._thinking = True
            pieces += self._flow("reasoning", self._thought, clean(delta.reasoning))
        if delta.text:
            pieces += self._end_thought()
            self._said = True
            pieces += self._flow("text", self._answer, clean(delta.text))
        return pieces

    def complete(self, message: Message) -> list[Piece]:
        """The whole message is known: give out what streaming did not."""
        self._holes = False
        missing = Delta(
            "" if self._said else message.text,
            "" if self._said or self._thinking else message.reasoning,
        )
        return [*self.feed(missing), *self.cut()]

    def lost(self) -> None:
        """Pieces went by unseen: wait for the whole message and give that out."""
        self._holes = True
        self._said = self._thinking = False
        self._answer, self._thought = Blocks(), Blocks()

    def cut(self) -> list[Piece]:
        """Something else comes next: end what is open."""
        pieces = [*self._end_thought(), *self._end("text", self._answer)]
        self._said = False
        return pieces

    def _end_thought(self) -> list[Piece]:
        if not self._thinking:
            return []
        self._thinking = False
        return self._end("reasoning", self._thought)

    def _flow(self, kind: Kind, blocks: Blocks, text: str) -> list[Piece]:
        if self.whole:
            return [Piece(kind, block) for block in blocks.feed(text)]
        if text:
            self._open_line = not text.endswith("\n")
        return [Piece(kind, text)] if text else []

    def _end(self, kind: Kind, blocks: Blocks) -> list[Piece]:
        if self.whole:
            rest = blocks.flush()
            return [Piece(kind, rest)] if rest else []
        ends = [Piece(kind, "\n")] if self._open_line else []
        self._open_line = False
        return ends
