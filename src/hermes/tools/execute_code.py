"""Python with the tools callable inside it: one turn in place of eight.

Each inner call takes the same road as one of the model's own: executor, policy, journal.
"""

from collections import Counter
from typing import Annotated, Any

import msgspec

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.code_session import CodeSession, Ended
from hermes.tools.declare import Needs, tool
from hermes.tools.kit import Kit


def make(kit: Kit) -> Tool:
    settings = kit.settings

    @tool(
        risk=Risk.CHANGE,
        needs=Needs(programs=("python3",), how="install Python 3 in the environment"),
    )
    async def execute_code(
        context: ToolContext,
        code: str,
        timeout: Annotated[float, msgspec.Meta(gt=0, description="seconds")] = 120.0,
    ) -> str:
        """Run Python where the commands run, to do in one turn what needs many calls.

        The other tools are functions there: print(terminal("uptime")). They return text, raise
        ToolFailed, and may be called from threads. Print only what you need to see.
        """
        session = CodeSession(
            context,
            call_limit=settings.code_calls,
            output_limit=settings.code_output,
            timeout=min(timeout, settings.code_timeout),
        )
        ended = await session.run(code, _functions(kit))
        return _told(ended)

    return execute_code


def _functions(kit: Kit) -> list[tuple[str, list[str], str]]:
    """Name, parameters in order and description of each tool but this one."""
    return [
        (name, list(_properties(other)), other.spec.description)
        for name, other in kit.tools.items()
        if name != "execute_code"
    ]


def _properties(other: Tool) -> dict[str, Any]:
    found: dict[str, Any] = other.spec.parameters.get("properties", {})
    return found


def _told(ended: Ended) -> str:
    parts = [ended.output.rstrip("\n")]
    if ended.value:
        parts.append(f"value: {ended.value}")
    if ended.calls:
        counted = ", ".join(f"{name} ×{count}" for name, count in Counter(ended.calls).items())
        parts.append(f"[calls: {counted}]")
    if ended.error:
        parts.append(ended.error)
        raise ToolError("\n".join(part for part in parts if part))
    return "\n".join(part for part in parts if part) or "[it printed nothing]"
