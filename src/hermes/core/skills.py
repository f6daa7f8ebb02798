"""What the agent's skill tools ask for; the library itself lives in another room."""

from collections.abc import Sequence
from typing import Protocol

from hermes.core.messages import Value


class SkillCard(Value, kw_only=True, frozen=True):
    """A skill in one line."""

    name: str
    description: str
    category: str = "general"
    playbook: bool = False
    """It has a runnable half."""


class KnowsSkills(Protocol):
    """The library as the agent may read it. Raises `ToolError` for the model."""

    async def categories(self) -> Sequence[tuple[str, int]]:
        """Each with how many skills it has."""
        ...

    async def cards(self, category: str = "", task: str = "") -> Sequence[SkillCard]:
        """Of one category, or of all; those that fit the task come first."""
        ...

    async def body(self, name: str) -> str: ...
    async def outline(self, name: str) -> str:
        """Its headings and linked files."""
        ...

    async def linked(self, name: str, file: str) -> str: ...
