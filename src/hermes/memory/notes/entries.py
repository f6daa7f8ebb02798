"""Splits a note file into entries and joins them again without loss."""

from collections.abc import Callable, Collection, Sequence

from hermes.core.errors import ToolError
from hermes.core.messages import Value
from hermes.memory.facts.fact import split_words
from hermes.plumbing.patterns import lazy_pattern

_ENTRY_START = lazy_pattern(r"[-*+•]\s+|\d{1,3}[.)]\s+")
_SEPARATOR = lazy_pattern(r"\s*(?:#{1,6}\s|§\s*$|<!--|---+\s*$)")


class NoteBlock(Value, frozen=True):
    """Some lines of a file, with the empty ones below them."""

    raw: str

    @property
    def entry(self) -> str:
        """Its text; empty for headings and rules."""
        if _SEPARATOR.match(self.raw):
            return ""
        return " ".join(_ENTRY_START.sub("", self.raw.strip(), count=1).split())


def parse_blocks(text: str) -> tuple[NoteBlock, ...]:
    """Bullets, numbered items, paragraphs and headings; `§` between entries is understood too."""
    blocks: list[str] = []
    fresh = True
    for line in text.splitlines(keepends=True):
        begins = bool(_ENTRY_START.match(line) or _SEPARATOR.match(line))
        if not line.strip() and blocks:
            blocks[-1] += line
            fresh = True
            continue
        if begins or not blocks or (fresh and not line.startswith((" ", "\t"))):
            blocks.append(line)
        else:
            blocks[-1] += line
        fresh = bool(_SEPARATOR.match(line))
    return tuple(map(NoteBlock, blocks))


def render_blocks(blocks: Sequence[NoteBlock]) -> str:
    return "".join(block.raw for block in blocks)


def entry_texts(blocks: Sequence[NoteBlock]) -> list[str]:
    return [block.entry for block in blocks if block.entry]


def append_entry(blocks: Sequence[NoteBlock], entry: str) -> tuple[NoteBlock, ...]:
    """With one more bullet at the end."""
    before = list(blocks)
    if before and not before[-1].raw.endswith("\n"):
        before[-1] = NoteBlock(before[-1].raw + "\n")
    return (*before, NoteBlock(f"- {entry}\n"))


CONFLICT_MARK = "[conflict: both versions are kept, delete one]"


class NoteEdit(Value, kw_only=True, frozen=True):
    text: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    moved_out: tuple[str, ...] = ()
    """Entries that were removed for lack of space."""
    message: str = ""


def add_entry(current: str, entry: str) -> NoteEdit:
    blocks = parse_blocks(current)
    if _has_entry(blocks, entry):
        return NoteEdit(text=current, message="it is there already")
    return NoteEdit(
        text=render_blocks(append_entry(blocks, entry)), added=(entry,), message="added"
    )


def replace_entry(current: str, last_seen: Sequence[str], old: str, entry: str) -> NoteEdit:
    """Raises `ToolError` when no entry, or more than one, is meant."""
    blocks = parse_blocks(current)
    meant = _find_entry(entry_texts(blocks), last_seen, old)
    if meant not in entry_texts(blocks):
        marked = f"{entry} {CONFLICT_MARK}"
        message = (
            "a person changed or removed that entry meanwhile: theirs stays, yours was added "
            "beside it with a mark for them"
        )
        return NoteEdit(
            text=render_blocks(append_entry(blocks, marked)), added=(marked,), message=message
        )
    new = [NoteBlock(f"- {entry}\n") if block.entry == meant else block for block in blocks]
    return NoteEdit(text=render_blocks(new), added=(entry,), removed=(meant,), message="replaced")


def remove_entry(current: str, last_seen: Sequence[str], old: str) -> NoteEdit:
    blocks = parse_blocks(current)
    meant = _find_entry(entry_texts(blocks), last_seen, old)
    if meant not in entry_texts(blocks):
        return NoteEdit(
            text=current, message="a person changed or removed that entry meanwhile: left as it is"
        )
    kept = [block for block in blocks if block.entry != meant]
    return NoteEdit(text=render_blocks(kept), removed=(meant,), message="removed")


def fit_to_limit(
    changed: NoteEdit,
    limit: int,
    *,
    agent_entries: Collection[str] = (),
    usefulness: Callable[[str], float] = lambda entry: 0.0,
) -> NoteEdit:
    """Within the limit: the least useful entry is removed, the agent's own before a person's."""
    blocks = list(parse_blocks(changed.text))
    moved: list[str] = []
    while len(render_blocks(blocks).strip()) > limit:
        movable = [
            (entry not in agent_entries, usefulness(entry), at)
            for at, entry in enumerate(block.entry for block in blocks)
            if entry and entry not in changed.added
        ]
        if not movable:
            raise ToolError(f"too long: the whole file holds {limit:,} characters; say it shorter")
        moved.append(blocks.pop(min(movable)[2]).entry)
    if not moved:
        return changed
    return NoteEdit(
        text=render_blocks(blocks),
        added=changed.added,
        removed=(*changed.removed, *moved),
        moved_out=tuple(moved),
        message=changed.message,
    )


def _has_entry(blocks: Sequence[NoteBlock], entry: str) -> bool:
    words = split_words(entry)
    return any(split_words(known) == words for known in entry_texts(blocks))


def _find_entry(current: Sequence[str], last_seen: Sequence[str], old: str) -> str:
    """The one entry with these words, now or as the agent last saw it."""
    if not old.strip():
        raise ToolError("old_text is needed: some words of the entry that is meant")
    wanted = " ".join(old.split())
    # What the agent saw comes first: after a person's edit, the words may mean another entry.
    found = [entry for entry in last_seen if wanted in entry]
    found = found or [entry for entry in current if wanted in entry]
    if len(found) > 1:
        found = [entry for entry in found if entry in current] or found
    if not found:
        existing = "\n".join(f"- {entry}" for entry in current) or "(nothing)"
        raise ToolError(f"no entry holds {old!r}; there are:\n{existing}")
    if len(found) > 1:
        listed = "\n".join(f"- {entry}" for entry in found)
        raise ToolError(f"{old!r} occurs in several entries; give more of its text:\n{listed}")
    return found[0]
