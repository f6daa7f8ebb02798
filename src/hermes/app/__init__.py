"""Joins all packages: turns settings into a working application."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from hermes.app.application import Application, open_application

__all__ = ["Application", "open_application"]


def __getattr__(name: str) -> Any:
    """Loads `application` only when it is needed: some commands need a part of this package
    only."""
    if name in __all__:
        from hermes.app import application

        return getattr(application, name)
    raise AttributeError(f"module 'hermes.app' has no attribute {name!r}")
