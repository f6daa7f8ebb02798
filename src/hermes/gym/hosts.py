"""The other machines of an episode: one tool that runs a command on one of them by name."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec
from hermes.core.protocols import Environment, ToolContext
from hermes.gym.box.box import Box
from hermes.gym.box.place import place_in
from hermes.tools.declare import check, schema_of
from hermes.tools.terminal import show

NAME = "host_terminal"
PATIENCE = 120.0


class Arguments(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    host: str
    command: str


def spec_for(names: tuple[str, ...]) -> ToolSpec:
    return ToolSpec(
        name=NAME,
        description="Run a bash command on another machine of this network: "
        f"{', '.join(names)}. `terminal` runs on {names[0]}.",
        parameters=schema_of(Arguments),
        risk=Risk.CHANGE,
        alone=True,
    )


class HostTerminal:
    """A `Tool` that shows its command to the policy. Enters a host when it is first named."""

    def __init__(self, box: Box, names: tuple[str, ...], stack: AsyncExitStack) -> None:
        self._box, self._names, self._stack = box, names, stack
        self._places: dict[str, Environment] = {}
        self.spec = spec_for(names)

    def command(self, arguments: Mapping[str, Any]) -> str:
        return self.fit(arguments).command

    def fit(self, arguments: Mapping[str, Any]) -> Arguments:
        given = check(NAME, Arguments, arguments)
        assert isinstance(given, Arguments)
        if given.host not in self._names:
            raise ToolError(f"there is no host {given.host!r}; there are: {', '.join(self._names)}")
        return given

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        given = self.fit(arguments)
        place = self._places.get(given.host)
        if place is None:
            number = self._names.index(given.host)
            inside = place_in(self._box, host=number, name=given.host)
            place = await self._stack.enter_async_context(inside)
            self._places[given.host] = place
        return show(await place.run(given.command, timeout=PATIENCE), PATIENCE)
