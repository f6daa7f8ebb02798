"""A change of tone in the middle of a session, where the system prompt must stay as it is."""


def instruction(name: str, text: str) -> str:
    """Put before the person's next words: a changed prompt would cost the whole prefix cache."""
    if not text:
        return "[From now on answer in your usual tone again.]\n\n"
    return f"[From now on always answer in this tone ({name}): {text}]\n\n"
