"""The tool `mixture_of_agents`: several models answer a question, and one sums their answers up."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec
from hermes.core.protocols import ToolContext
from hermes.tools.declare import ToolRequirements, about, check_arguments, json_schema

MIXTURE_TOOL = "mixture_of_agents"
MIXTURE_NEEDS = ToolRequirements(
    settings=("model.mixtures",),
    how="hermes config set model.mixtures.deep.references sonnet,gpt,gemini",
)


class MixtureService(Protocol):
    """Asks the models of a mixture."""

    async def ask(self, context: ToolContext, question: str, models: Sequence[str]) -> str:
        """`models` chooses among those of the presets; empty: all of the first preset. Raises
        `ModelError`, `BudgetExceeded` and `ToolError`."""


class MixtureArguments(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    question: Annotated[str, about("with everything that is needed to answer it")]
    models: Annotated[list[str], about("fewer than all of the configured ones")] = []


class MixtureTool:
    """Implements `Tool`."""

    needs = MIXTURE_NEEDS
    spec = ToolSpec(
        name=MIXTURE_TOOL,
        description="Ask several models a hard question at once. Slow and dear: use it rarely.",
        parameters=json_schema(MixtureArguments),
        risk=Risk.READ,
    )

    def __init__(self, service: MixtureService | None = None) -> None:
        self._service = service

    def validate(self, arguments: Mapping[str, Any]) -> MixtureArguments:
        given = check_arguments(MIXTURE_TOOL, MixtureArguments, arguments)
        assert isinstance(given, MixtureArguments)
        if not given.question.strip():
            raise ToolError("question must not be empty")
        return given

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        given = self.validate(arguments)
        if self._service is None:
            raise ToolError(f"no mixture is written: {MIXTURE_NEEDS.how}")
        return await self._service.ask(context, given.question, given.models)


mixture_of_agents = MixtureTool()
