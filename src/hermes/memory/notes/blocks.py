"""A note file as a person writes it, cut into entries and put together again without a loss."""

import re
from collections.abc import Sequence

from hermes.core.messages import Value

_START = re.compile(r"[-*+•]\s+|\d{1,3}[.)]\s+")
_APART = re.compile(r"\s*(?:#{1,6}\s|§\s*$|<!--|---+\s*$)")


class Block(Value, frozen=True):
    """Some lines of a file, with the empty ones below them."""

    raw: str

    @property
    def entry(self) -> str:
        """What it says; empty for headings and rules."""
        if _APART.match(self.raw):
            return ""
        return " ".join(_START.sub("", self.raw.strip(), count=1).split())


def parse(text: str) -> tuple[Block, ...]:
    """Bullets, numbered items, paragraphs and headings; `§` between entries is understood too."""
    blocks: list[str] = []
    fresh = True
    for line in text.splitlines(keepends=True):
        begins = bool(_START.match(line) or _APART.match(line))
        if not line.strip() and blocks:
            blocks[-1] += line
            fresh = True
            continue
        if begins or not blocks or (fresh and not line.startswith((" ", "\t"))):
            blocks.append(line)
        else:
            blocks[-1] += line
        fresh = bool(_APART.match(line))
    return tuple(map(Block, blocks))


def render(blocks: Sequence[Block]) -> str:
    return "".join(block.raw for block in blocks)


def entries(blocks: Sequence[Block]) -> list[str]:
    return [block.entry for block in blocks if block.entry]


def appended(blocks: Sequence[Block], entry: str) -> tuple[Block, ...]:
    """With one more bullet at the end."""
    before = list(blocks)
    if before and not before[-1].raw.endswith("\n"):
        before[-1] = Block(before[-1].raw + "\n")
    return (*before, Block(f"- {entry}\n"))
