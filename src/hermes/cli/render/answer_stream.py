"""Turns a streamed answer into fragments, raw text or complete Markdown blocks, and styles them."""

import textwrap
from typing import Literal

from hermes.cli.render.terminal_text import TextStyle, clean
from hermes.core.messages import CompletionDelta, Message, Value


class MarkdownBlockSplitter:
    """A block ends at a blank line, or where its code fence closes."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self._unfinished = ""
        self._fence = ""

    @property
    def rest(self) -> str:
        """The text of the block that is not complete yet."""
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
    """Something to print. Text and reasoning may be parts of a line, the other kinds are lines."""

    kind: FragmentKind
    text: str


class AnswerStream:
    """With `block_mode` it returns complete Markdown blocks, otherwise text as it arrives."""

    def __init__(self, *, block_mode: bool, reasoning: bool) -> None:
        self.block_mode = block_mode
        self.reasoning = reasoning
        self._answer_blocks, self._reasoning_blocks = (
            MarkdownBlockSplitter(),
            MarkdownBlockSplitter(),
        )
        self._answer_started = self._reasoning_started = False
        """Whether a part of the current answer, or of the current reasoning, was returned."""
        self._open_line = False
        self._incomplete = False

    @property
    def pending_text(self) -> str:
        """Text that was received and not yet returned."""
        return self._answer_blocks.rest or self._reasoning_blocks.rest

    def feed(self, delta: CompletionDelta) -> list[OutputFragment]:
        if self._incomplete:
            return []
        fragments: list[OutputFragment] = []
        if delta.reasoning and self.reasoning:
            self._reasoning_started = True
            fragments += self._emit("reasoning", self._reasoning_blocks, clean(delta.reasoning))
        if delta.text:
            fragments += self._end_reasoning()
            self._answer_started = True
            fragments += self._emit("text", self._answer_blocks, clean(delta.text))
        return fragments

    def complete(self, message: Message) -> list[OutputFragment]:
        """The message is complete: return what was not streamed."""
        self._incomplete = False
        missing = CompletionDelta(
            "" if self._answer_started else message.text,
            "" if self._answer_started or self._reasoning_started else message.reasoning,
        )
        return [*self.feed(missing), *self.finish()]

    def discard_stream(self) -> None:
        """Parts of the stream were missed: wait for the complete message instead."""
        self._incomplete = True
        self._answer_started = self._reasoning_started = False
        self._answer_blocks, self._reasoning_blocks = (
            MarkdownBlockSplitter(),
            MarkdownBlockSplitter(),
        )

    def finish(self) -> list[OutputFragment]:
        """End the open text: something else is printed next."""
        fragments = [*self._end_reasoning(), *self._end("text", self._answer_blocks)]
        self._answer_started = False
        return fragments

    def _end_reasoning(self) -> list[OutputFragment]:
        if not self._reasoning_started:
            return []
        self._reasoning_started = False
        return self._end("reasoning", self._reasoning_blocks)

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


def style_fragment(
    fragment: OutputFragment, *, style: TextStyle, width: int, block_mode: bool
) -> tuple[str, str]:
    """Return the text to print and its line end, which is empty for streamed text."""
    if fragment.kind == "text":
        return (
            (_render_block(fragment.text, width, style) + "\n", "\n")
            if block_mode
            else (fragment.text, "")
        )
    if fragment.kind == "reasoning":
        return style.dim(fragment.text), "\n" if block_mode else ""
    if fragment.kind == "error":
        return style.red(_wrap_text(f"✗ {fragment.text}", width)), "\n"
    if fragment.kind == "tool":
        return _color_result_mark(fragment.text, style), "\n"
    return style.dim(_wrap_text(fragment.text, width)), "\n"


def _wrap_text(text: str, width: int) -> str:
    """Wrap between words; existing line breaks and indents stay."""
    return "\n".join(textwrap.fill(row, width, drop_whitespace=False) for row in text.split("\n"))


def _render_block(text: str, width: int, style: TextStyle) -> str:
    from hermes.cli.render.rich_output import render_markdown_block

    return render_markdown_block(text, width=width, colour=style.colour)


def _color_result_mark(line: str, style: TextStyle) -> str:
    """Colour only the last mark: the call before it may contain the same characters."""
    for mark, colour in (("  ✓ ", style.green), ("  ✗ ", style.red)):
        before, found, after = line.rpartition(mark)
        if found:
            return f"{before}{colour(found.rstrip())} {style.dim(after)}"
    return style.dim(line)
