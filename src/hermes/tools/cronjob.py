"""The tool `cronjob`: the agent adds jobs for a person, who is asked, and lists or stops them."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Protocol

from hermes.core.errors import ToolError
from hermes.core.messages import Risk
from hermes.core.protocols import ToolContext
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.dependencies import Unavailable

CRONJOB_TOOL = "cronjob"
JobVerb = Literal["add", "list", "pause", "resume", "remove"]


class KeepsJobs(Protocol):
    """Changes jobs for the person of a run. Raises `ToolError` with what is wrong."""

    async def change(
        self, context: ToolContext, verb: JobVerb, arguments: Mapping[str, Any]
    ) -> str: ...


def make_cronjob(jobs: KeepsJobs) -> FunctionTool:
    @tool(risk=Risk.CHANGE, alone=True)
    async def cronjob(
        context: ToolContext,
        action: JobVerb,
        schedule: Annotated[
            str, about("'every weekday at 9', 'in 20 minutes', '0 */6 * * *', '2026-12-24 18:00'")
        ] = "",
        task: Annotated[str, about("instructions for the agent that will run then (add)")] = "",
        name: Annotated[str, about("of the job; may be left out when adding")] = "",
        deliver: Annotated[str, about("where the result goes, such as telegram")] = "",
    ) -> str:
        """Run something later or regularly, or remind the person: add, list, pause, resume, remove.

        The schedule must be in one of these forms; translate what the person said into one, and
        tell them the times that this tool returns.
        """
        arguments = {"schedule": schedule, "task": task, "name": name, "deliver": deliver}
        if action == "add" and not (schedule and task):
            raise ToolError("adding a job needs a schedule and a task")
        if action in ("pause", "resume", "remove") and not name:
            raise ToolError(f"which job is to be changed by {action}? `list` names them")
        return await jobs.change(context, action, arguments)

    return cronjob


cronjob = make_cronjob(Unavailable("no jobs are kept here"))
