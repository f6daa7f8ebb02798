"""What the agent may do to its notes, as values: nothing here touches a file.

A person may have the file open at the same time. So a change names the entry it means as the agent
last saw it; when the person has changed that entry since, both versions stay, with a mark.
"""

from collections.abc import Callable, Collection, Sequence

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.memory.facts.fact import words
from hermes.memory.notes.blocks import Block, appended, entries, parse, render

CONFLICT = "[conflict: both versions are kept, delete one]"


class Changed(Value, kw_only=True, frozen=True):
    text: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved: tuple[str, ...] = ()
    """Entries that had to make room."""
    said: str = ""


def add(current: str, entry: str) -> Changed:
    blocks = parse(current)
    if _known(blocks, entry):
        return Changed(text=current, said="it is there already")
    return Changed(text=render(appended(blocks, entry)), added=(entry,), said="added")


def replace(current: str, seen: Sequence[str], old: str, entry: str) -> Changed:
    """Raises `ToolError` when no entry, or more than one, is meant."""
    blocks = parse(current)
    meant = _meant(entries(blocks), seen, old)
    if meant not in entries(blocks):
        marked = f"{entry} {CONFLICT}"
        said = (
            "a person changed or removed that entry meanwhile: theirs stays, yours was added "
            "beside it with a mark for them"
        )
        return Changed(text=render(appended(blocks, marked)), added=(marked,), said=said)
    new = [Block(f"- {entry}\n") if block.entry == meant else block for block in blocks]
    return Changed(text=render(new), added=(entry,), removed=(meant,), said="replaced")


def remove(current: str, seen: Sequence[str], old: str) -> Changed:
    blocks = parse(current)
    meant = _meant(entries(blocks), seen, old)
    if meant not in entries(blocks):
        return Changed(
            text=current, said="a person changed or removed that entry meanwhile: left as it is"
        )
    kept = [block for block in blocks if block.entry != meant]
    return Changed(text=render(kept), removed=(meant,), said="removed")


def fit(
    changed: Changed,
    limit: int,
    *,
    own: Collection[str] = (),
    worth: Callable[[str], float] = lambda entry: 0.0,
) -> Changed:
    """Within the limit: the least useful entry makes room, the agent's own before a person's."""
    blocks = list(parse(changed.text))
    moved: list[str] = []
    while len(render(blocks).strip()) > limit:
        movable = [
            (entry not in own, worth(entry), at)
            for at, entry in enumerate(block.entry for block in blocks)
            if entry and entry not in changed.added
        ]
        if not movable:
            raise ToolError(f"too long: the whole file holds {limit:,} characters; say it shorter")
        moved.append(blocks.pop(min(movable)[2]).entry)
    if not moved:
        return changed
    return Changed(
        text=render(blocks),
        added=changed.added,
        removed=(*changed.removed, *moved),
        moved=tuple(moved),
        said=changed.said,
    )


def _known(blocks: Sequence[Block], entry: str) -> bool:
    said = words(entry)
    return any(words(known) == said for known in entries(blocks))


def _meant(current: Sequence[str], seen: Sequence[str], old: str) -> str:
    """The one entry that holds these words, now or as the agent last saw it."""
    if not old.strip():
        raise ToolError("old_text is needed: some words of the entry that is meant")
    wanted = " ".join(old.split())
    # What the agent saw comes first: in what a person made of it, its words may mean another.
    found = [entry for entry in seen if wanted in entry]
    found = found or [entry for entry in current if wanted in entry]
    if len(found) > 1:
        found = [entry for entry in found if entry in current] or found
    if not found:
        there = "\n".join(f"- {entry}" for entry in current) or "(nothing)"
        raise ToolError(f"no entry holds {old!r}; there are:\n{there}")
    if len(found) > 1:
        listed = "\n".join(f"- {entry}" for entry in found)
        raise ToolError(f"{old!r} stands in several entries; say more of it:\n{listed}")
    return found[0]
