"""One model that investigates and fixes in one conversation, for small models and for training.

It implements `ModelResponder` with one agent: the work is not divided, and the diagnosis comes
with the agent's report. The checks around it are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hermes.agent.conversation import Conversation
from hermes.agent.dependencies import AgentDependencies
from hermes.core.errors import HermesError, StoreError
from hermes.core.events.incidents import IncidentHint
from hermes.core.incident import IncidentDetails, read_hints
from hermes.core.protocols import Tool
from hermes.sre.checks import CheckResult
from hermes.sre.model_responder import FailedAttempt, FixResult, Hypothesis, InvestigationResult
from hermes.sre.responders.prompts import render_hints
from hermes.tools.executor import Executor

TASK_TEMPLATE = """\
You are on call, and nobody else is awake. An alert came in:

[{severity}] {title}
{text}
{labels}
Find out what is wrong on this host, repair its cause with the smallest change that does, and \
verify that it holds, also after the service is restarted or its job runs again. Leave everything \
else as it is. Not every alert is an incident: if nothing is wrong, or it has recovered by itself, \
change nothing. If the only way is one that a person must decide on, do not take it.
{more}
At the end call `conclude` once, with what was broken, how, by which value, the commands whose \
output shows it, and a report. Then stop."""


@dataclass(frozen=True)
class SingleModelResponder:
    dependencies: AgentDependencies
    conclude: Callable[[IncidentDetails], Tool]
    """Builds the tool with which the model reports its findings."""
    errors: list[str] = field(default_factory=list)
    """Errors that ended a conversation, for the caller."""
    additional_text: str = ""
    """Further information for the prompt, such as the names of other hosts."""

    async def investigate(
        self, details: IncidentDetails, baseline: Sequence[CheckResult]
    ) -> InvestigationResult:
        return InvestigationResult(
            verdict="fix", hypotheses=(Hypothesis(component=details.service),)
        )

    async def remediate(
        self,
        details: IncidentDetails,
        hypothesis: Hypothesis,
        attempt: int,
        failed_attempts: Sequence[FailedAttempt],
        executor: Executor,
    ) -> FixResult:
        executor = executor.with_tool(self.conclude(details))
        dependencies = replace(self.dependencies, executor=executor)
        run = f"{details.run}/fix-{attempt}"
        try:
            conversation = await Conversation.begin(
                dependencies, task=details.title, run=run, parent=details.run
            )
            hints = await read_hints(dependencies.bus.journal, details.run)
            task = render_task(details, self.additional_text, failed_attempts, hints)
            await conversation.say(task)
        except StoreError:
            raise
        except HermesError as error:
            self.errors.append(str(error))
            return FixResult(gave_up=str(error))
        return FixResult()


def render_task(
    details: IncidentDetails,
    additional_text: str = "",
    failed_attempts: Sequence[FailedAttempt] = (),
    hints: Sequence[IncidentHint] = (),
) -> str:
    labels = "\n".join(f"{name}: {value}" for name, value in sorted(details.labels.items()))
    before = [
        f"Tried before, and taken back because it did not hold: {each.why}"
        for each in failed_attempts
    ]
    return TASK_TEMPLATE.format(
        severity=details.severity,
        title=details.title,
        text="" if details.text == details.title else details.text,
        labels=labels,
        more="\n".join(filter(None, (additional_text, *before, render_hints(hints, details.run)))),
    )
