"""The call that runs a hook: a program of the operator that gets an event.

No model is offered it. It is a tool because everything that runs a command is decided, recorded
and confined in one place.
"""

import sys
from collections.abc import Mapping
from shlex import quote
from typing import Any

from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolSpec
from hermes.core.protocols import CommandResult, ToolContext

RUN_HOOK_TOOL = "run_hook"
PYTHON_SUFFIX = ".py"
MAX_OUTPUT_BYTES = 64 * 1024
TREE_VARIABLE = "HERMES_TREE"
"""The mark by which all processes of a command are found and ended."""
_PROGRAM = """\
import asyncio, importlib.util, inspect, json, os, sys
path = sys.argv[1]
sys.path.insert(0, os.path.dirname(path))
spec = importlib.util.spec_from_file_location("handler", path)
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
given = json.load(sys.stdin)
done = module.handle(given["event"], given["context"])
if inspect.isawaitable(done):
    async def wait():
        return await done
    asyncio.run(wait())
"""
"""Loads handler.py and calls `handle(event_type, context)`."""


class HookCall:
    """A tool that runs one handler for one event. `result` is what became of it."""

    def __init__(
        self,
        handler: str,
        event: str,
        stdin: bytes,
        *,
        folder: str,
        variables: Mapping[str, str],
        timeout_s: float,
    ) -> None:
        self._handler, self._event, self._stdin = handler, event, stdin
        self._folder, self._variables, self._timeout_s = folder, variables, timeout_s
        self.result: CommandResult | None = None

    @property
    def spec(self) -> ToolSpec:
        return ToolSpec(
            name=RUN_HOOK_TOOL,
            description="Run a hook that a person trusts, for an event.",
            parameters={
                "type": "object",
                "properties": {
                    "hook": {"type": "string"},
                    "event": {"type": "string"},
                    "number": {"type": "integer"},
                },
                "required": ["hook", "event", "number"],
            },
            risk=Risk.CHANGE,
        )

    async def __call__(self, context: ToolContext, arguments: Mapping[str, Any]) -> str:
        self.result = await context.environment.run(
            self._command(), timeout=self._timeout_s, stdin=self._stdin, cwd=self._folder
        )
        output = self.result.output.encode()[:MAX_OUTPUT_BYTES].decode(errors="ignore")
        if self.result.timed_out:
            raise ToolError(f"{output}\n[ended after {self._timeout_s:g} s]")
        if self.result.exit_code:
            raise ToolError(f"{output}\n[exit code {self.result.exit_code}]")
        return output

    def _command(self) -> str:
        """The handler without any variable of ours but those it is given."""
        given = [f"{name}={quote(value)}" for name, value in self._variables.items()]
        words = ["env", "-i", *given, f'{TREE_VARIABLE}="${TREE_VARIABLE}"']
        if self._handler.endswith(PYTHON_SUFFIX):
            # -B: a compiled file would change the digest of the hook.
            words += [quote(sys.executable), "-I", "-B", "-c", quote(_PROGRAM)]
        return " ".join([*words, quote(self._handler), quote(self._event)])
