"""Shows a change as text without secrets. Everything that leaves the store passes through here."""

import difflib
import re
from collections.abc import Callable, Iterator

from hermes.declared.collectors.collect import is_secret_file
from hermes.declared.packet_filter import change_words
from hermes.declared.state import UNCOMPARED_ATTRIBUTES, Item, StateChange
from hermes.declared.store import StateStore

RedactText = Callable[[str], str]
MAX_LINES = 400
HIDDEN = "[redacted]"
_SECRET_KEY = re.compile(
    r"(?P<key>[\w.\-\"']*(?:passw|passphrase|pwd|secret|token|credential|api[_-]?key|private[_-]?key"
    r"|access[_-]?key|auth|dsn|conninfo|masterauth|requirepass)[\w.\-\"']*)"
    r"(?P<gap>\s*(?:=>|:=|[:=])\s*|[ \t]+)(?P<value>\S.*)$",
    re.IGNORECASE,
)
_PLAIN_VALUE = re.compile(r"(?:yes|no|on|off|true|false|none|null|\d{1,4}|/[\w./-]*)[;,]?$", re.I)
_WITH_PASSWORD = re.compile(r"(?P<start>\w+://[^\s:/@]*:)[^\s@/]+@")


def describe_change(change: StateChange, store: StateStore, redact: RedactText) -> str:
    """Return what differs, with a unified diff where content is known; secrets are removed."""
    words = [redact(each)] if (each := change_words(change)) else []
    lines = [*_attribute_lines(change, redact), *_content_lines(change, store, redact)]
    return "\n".join([*words, *lines])


def _attribute_lines(change: StateChange, redact: RedactText) -> Iterator[str]:
    before, after = change.before or Item(), change.after or Item()
    for name in change.differing:
        if name == "content" or name in UNCOMPARED_ATTRIBUTES:
            continue
        old, new = before.attributes.get(name, ""), after.attributes.get(name, "")
        shown = f"{redact(hide_value(name, old)) or '–'} → {redact(hide_value(name, new)) or '–'}"
        yield f"{name}: {shown}"


def _content_lines(change: StateChange, store: StateStore, redact: RedactText) -> Iterator[str]:
    if "content" not in change.differing:
        return
    if change.item.kind == "file" and is_secret_file(change.item.key):
        yield "content: differs; it is a secret file and is not shown"
        return
    texts = [_text(item, store) for item in (change.before, change.after)]
    if texts[0] is None or texts[1] is None:
        yield "content: differs; it is not text, or only its digest is known"
        return
    yield from redacted_diff(texts[0], texts[1], redact, change.item.key)


def redacted_diff(before: str, after: str, redact: RedactText, name: str) -> list[str]:
    """Lines of a unified diff. Lines that differ only in a secret are shown, without it."""
    shown = [hide_secrets(redact(text)).splitlines() for text in (before, after)]
    plain = [text.splitlines() for text in (before, after)]
    aligned = all(len(one) == len(other) for one, other in zip(shown, plain, strict=True))
    compared = plain if aligned else shown
    lines = [f"--- {name} (before)", f"+++ {name} (after)"]
    matcher = difflib.SequenceMatcher(None, compared[0], compared[1], autojunk=False)
    for group in matcher.get_grouped_opcodes(3):
        first, last = group[0], group[-1]
        lines.append(
            f"@@ -{first[1] + 1},{last[2] - first[1]} +{first[3] + 1},{last[4] - first[3]} @@"
        )
        for tag, start, end, new_start, new_end in group:
            if tag == "equal":
                lines += [f" {line}" for line in shown[0][start:end]]
                continue
            lines += [f"-{line}" for line in shown[0][start:end]]
            lines += [f"+{line}" for line in shown[1][new_start:new_end]]
    if not aligned:
        lines.append("(lines that hold secrets were removed before the comparison)")
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"… {len(lines) - MAX_LINES} more lines"]
    return lines


def hide_secrets(text: str) -> str:
    """Removes the values of keys that look like those of secrets, line by line."""
    return "\n".join(_hide_in_line(line) for line in text.split("\n"))


def hide_value(name: str, value: str) -> str:
    return _hide_in_line(f"{name}={value}").partition("=")[2] if value else value


def _hide_in_line(line: str) -> str:
    line = _WITH_PASSWORD.sub(rf"\g<start>{HIDDEN}@", line)
    found = _SECRET_KEY.search(line)
    if found is None or _PLAIN_VALUE.match(found["value"]):
        return line
    if found["gap"].isspace() and " " in found["value"].strip():
        return line  # a sentence
    return f"{line[: found.start('value')]}{HIDDEN}"


def _text(item: Item | None, store: StateStore) -> str | None:
    """Return None when it is not text or not kept; empty for an item that does not exist."""
    if item is None or item.attributes.get("type", "file") != "file":
        return ""
    content = store.content(item.digest) if item.digest else None
    if content is None or b"\0" in content:
        return None
    return content.decode("utf-8", "replace")
