"""What a subagent had found when it was cut off: read from the journal, so that nothing is lost."""

from hermes.agent.digest import digest
from hermes.agent.history import recall
from hermes.agent.results import shorten
from hermes.core.errors import SettingsError
from hermes.core.protocols import Journal

TEXTS, RESULTS = 3, 5


async def findings(journal: Journal, run: str) -> str:
    """Its last texts and tool results, shortened; empty when it had not begun."""
    try:
        messages = (await recall(journal, run)).view
    except SettingsError:
        return ""
    texts = [m.text for m in messages if m.role == "assistant" and m.text.strip()][-TEXTS:]
    results = [m.result.content for m in messages if m.result is not None][-RESULTS:]
    if not texts and not results:
        return "It had found nothing yet."
    parts = ["What it had found so far:", *(shorten(text, 1500) for text in texts)]
    steps = digest([m for m in messages if m.role == "assistant" or m.result], 1500)
    parts += ["Its steps:", steps] if results else []
    parts += ["Its last results:", *(shorten(text, 800) for text in results)] if results else []
    return "\n\n".join(parts)


async def last_answer(journal: Journal, run: str) -> str:
    """The last words of a run that had ended before anybody read them."""
    messages = (await recall(journal, run)).messages
    return next((m.text for m in reversed(messages) if m.role == "assistant" and m.text), "")
