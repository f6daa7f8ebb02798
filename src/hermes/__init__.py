"""Hermes: an agent harness, and the on-call engineer built on it."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.app.door import Agent, AIAgent

__version__ = "0.1.0"
__all__ = ["AIAgent", "Agent", "__version__"]


def __getattr__(name: str) -> Any:
    """`from hermes import Agent` without making `hermes --version` pay for it."""
    if name in ("Agent", "AIAgent"):
        from hermes.app import door  # noqa: PLC0415

        return getattr(door, name)
    raise AttributeError(f"module 'hermes' has no attribute {name!r}")
