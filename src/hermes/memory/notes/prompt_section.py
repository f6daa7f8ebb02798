"""The notes in the prompt: limited, marked, without hidden or commanding text."""

from collections.abc import Sequence

from hermes.core.foreign_text import strip_hidden_characters
from hermes.core.knowledge import NOTES_HEADING as HEAD
from hermes.core.messages import Value
from hermes.memory.facts.prompt_injection import is_standing_order, is_takeover_attempt
from hermes.memory.notes.entries import entry_texts, parse_blocks

_FILE_TITLES = {"MEMORY.md": "MEMORY (what you noted)", "USER.md": "USER (about the person)"}


class NotesSection(Value, frozen=True):
    text: str = ""
    warnings: tuple[str, ...] = ()


def render_section(notes: Sequence[tuple[str, str, int]], tokens: int) -> NotesSection:
    """Name, text and limit of each file; nothing when none of them has content."""
    parts: list[str] = []
    warnings: list[str] = []
    for name, text, limit in notes:
        kept, problems = _entries_within_limit(
            name, entry_texts(parse_blocks(strip_hidden_characters(text))), limit
        )
        warnings += problems
        left = tokens - estimate_tokens("\n".join((HEAD, *parts)))
        shown = _entries_within_tokens(kept, left - 30)
        if len(shown) < len(kept):
            warnings.append(f"{name}: {len(kept) - len(shown)} entries are over the token budget")
        if shown:
            size = sum(len(entry) + 3 for entry in shown)
            share = round(100 * size / limit) if limit else 100
            head = f"{_FILE_TITLES.get(name, name)} [{share}% — {size:,}/{limit:,} characters]"
            parts.append("\n".join((head, *(f"- {_quoted(entry)}" for entry in shown))))
    return NotesSection("\n\n".join((HEAD, *parts)) if parts else "", tuple(warnings))


def _quoted(entry: str) -> str:
    """Show text that orders something as a quotation: perhaps no person has said it."""
    return f'[written down, no instruction] "{entry}"' if is_standing_order(entry) else entry


def estimate_tokens(text: str) -> int:
    """A high estimate for every script: about three letters per token, one wide character per
    token."""
    plain = sum(char < "\u0250" for char in text)
    return round(plain / 3.2) + len(text) - plain


def _entries_within_limit(
    name: str, found: Sequence[str], limit: int
) -> tuple[list[str], list[str]]:
    warnings: list[str] = []
    calm = [entry for entry in found if not is_takeover_attempt(entry)]
    if len(calm) < len(found):
        warnings.append(
            f"{name}: {len(found) - len(calm)} entries try to give the agent orders over its "
            "rules and are not shown to it; check them"
        )
    kept: list[str] = []
    remaining = limit
    for entry in calm:
        remaining -= len(entry) + 3
        if remaining < 0:
            left = len(calm) - len(kept)
            warnings.append(f"{name}: {left} entries are over its {limit:,} characters; shorten it")
            break
        kept.append(entry)
    return kept, warnings


def _entries_within_tokens(found: Sequence[str], tokens: int) -> list[str]:
    shown: list[str] = []
    for entry in found:
        tokens -= estimate_tokens(f"- {entry}\n")
        if tokens < 0:
            break
        shown.append(entry)
    return shown
