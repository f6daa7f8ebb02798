from typing import Any

import pytest

from hermes.core.protocols import (
    ActsElsewhere,
    AsksOtherModels,
    ConfinesCommands,
    HasStatePerRun,
    ShowsCommand,
    ShowsRequest,
    StreamsText,
    provides,
)


class Shell:
    def command(self, arguments: dict[str, Any]) -> str:
        return str(arguments["command"])


class Forwarding:
    """Passes everything on, as wrappers of outside authors do."""

    def __init__(self, tool: object) -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)


class Disabled(Shell):
    command = None  # type: ignore[assignment]


class Assigned:
    def __init__(self) -> None:
        self.command = str


VALUES = [Shell(), Forwarding(Shell()), Disabled(), Assigned(), object(), None]


@pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize(
    "ability",
    [
        ActsElsewhere,
        AsksOtherModels,
        ConfinesCommands,
        HasStatePerRun,
        ShowsCommand,
        ShowsRequest,
        StreamsText,
    ],
)
def test_an_ability_is_recognised_as_isinstance_does(value: object, ability: Any) -> None:
    assert provides(value, ability) == isinstance(value, ability)


def test_a_tool_that_passes_everything_on_shows_its_command() -> None:
    assert provides(Forwarding(Shell()), ShowsCommand)
    assert not provides(object(), ShowsCommand)
