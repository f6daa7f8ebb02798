"""The one place that knows everyone: turns settings into a working house."""

from hermes.app.house import House, open_house

__all__ = ["House", "open_house"]
