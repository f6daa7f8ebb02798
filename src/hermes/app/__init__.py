"""The one place that knows everyone: turns settings into a working house."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.app.application import Application, open_application

__all__ = ["Application", "open_application"]


def __getattr__(name: str) -> Any:
    """A command that needs one part of the house, such as its gate, does not pay for the whole."""
    if name in __all__:
        from hermes.app import application

        return getattr(application, name)
    raise AttributeError(f"module 'hermes.app' has no attribute {name!r}")
