"""What a tool result says about how it went, read from its text alone."""

import re

from hermes.core.messages import ToolResult

_EXIT = re.compile(r"\bexit(?:ed)?[ _]?(?:with )?(?:code|status)?[\"']?[ :=]{1,3}(-?\d+)\b", re.I)


def exit_status(text: str) -> int | None:
    """The exit status a command tool wrote at the start or the end of its result."""
    for part in (text[:200], text[-200:]):
        found = _EXIT.search(part)
        if found:
            return int(found[1])
    return None


def failed(result: ToolResult) -> bool:
    return result.status != "ok" or bool(exit_status(result.content))


def shorten(text: str, size: int) -> str:
    """Head and tail of a text that is too long, with how much is missing."""
    if len(text) <= size:
        return text
    half = max(size // 2, 1)
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"
