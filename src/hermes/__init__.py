"""Hermes: an agent harness, and the on-call engineer built on it."""

TYPE_CHECKING = False  # as type checkers read it; loading `typing` would double `hermes --version`
if TYPE_CHECKING:
    from hermes.app.python_api import Agent, AIAgent

__version__ = "0.1.0"
__all__ = ["AIAgent", "Agent", "__version__"]


def __getattr__(name: str) -> object:
    """`from hermes import Agent` without making `hermes --version` pay for it."""
    if name in ("Agent", "AIAgent"):
        from hermes.app import python_api  # noqa: PLC0415

        return getattr(python_api, name)
    raise AttributeError(f"module 'hermes' has no attribute {name!r}")
