"""From a reference to a model that answers: finds the dialect, hands it what it needs.

A dialect is a plug-in of the group `hermes.models`: a callable that takes an `Opening` and
returns a `Model`. It is loaded when a model that speaks it is first opened.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import cast

from hermes.core.plugins import load
from hermes.core.protocols import Model
from hermes.models.connections import Connections
from hermes.models.reference import Target, resolve
from hermes.models.settings import ModelSettings


@dataclass(frozen=True)
class Opening:
    """All that a dialect may know."""

    target: Target
    settings: ModelSettings
    connections: Connections
    key: str = field(default="", repr=False)


def open_model(
    reference: str,
    settings: ModelSettings,
    secrets: Mapping[str, str],
    connections: Connections,
) -> Model:
    """The model behind `reference`. Raises `SettingsError`; a missing key is told at the first
    call, so that a chain can go on to its next model.
    """
    target = resolve(reference, settings)
    key = secrets.get(target.provider.key_variable, "") if target.provider.key_variable else ""
    dialect = load("models", target.provider.dialect)
    opening = Opening(target=target, settings=settings, connections=connections, key=key.strip())
    return cast(Model, dialect(opening))
