"""What the agent's memory tool asks for; the notes themselves live in another room."""

from typing import Literal, Protocol

NoteAction = Literal["add", "replace", "remove", "read"]
NoteTarget = Literal["memory", "user"]


class KeepsNotes(Protocol):
    """The two short files that every session begins with. Raises `ToolError` for the model."""

    async def change(
        self, run: str, action: NoteAction, target: NoteTarget, content: str, old_text: str
    ) -> str:
        """Do it and say what is there now, in words."""
        ...


HOUSE = "[Hermes:"
"""How everything begins that the house itself says in a conversation."""
NOTES_HEAD = """\
Notes from earlier sessions, as they were when this one began (the memory tool changes the files, \
not this copy). They tell what was so; look before you rely on them, and what the person says now \
counts more."""
RECALLED = f"{HOUSE} recalled"
"""How recalled text begins: shown to the model, never learned from, never taken for a wish."""
