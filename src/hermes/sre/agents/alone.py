"""One model in one conversation, which looks and mends: for small models, and for training them.

It fulfils `Minds` with less: nobody divides the work, and its diagnosis comes with its report. The
checks around it are the same.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from hermes.agent.conversation import Conversation
from hermes.agent.means import Means
from hermes.core.errors import HermesError, StoreError
from hermes.core.protocols import Tool
from hermes.sre.case import Case
from hermes.sre.looking import Seen
from hermes.sre.minds import Hypothesis, Remedy, Synthesis, Tried
from hermes.tools.executor import Executor

TASK = """\
You are on call, and nobody else is awake. An alert came in:

[{severity}] {title}
{text}
{labels}
Find out what is wrong on this host, mend its cause with the smallest change that does, and verify \
that it holds, also after the service is restarted or its job runs again. Leave everything else \
as it is. Not every alert is an incident: if nothing is wrong, or it has recovered by itself, \
change nothing. If the only way is one that a person must decide on, do not take it.
{more}
At the end call `conclude` once, with what was broken, how, by which value, the commands whose \
output shows it, and a report. Then stop."""


@dataclass(frozen=True)
class Alone:
    means: Means
    conclude: Callable[[Case], Tool]
    """The tool with which it says what it found."""
    troubles: list[str] = field(default_factory=list)
    """Why it could not go on, when it could not: for whoever opened it."""
    more: str = ""
    """What it must know beside the alert, such as the names of other hosts."""

    async def investigate(self, case: Case, baseline: Sequence[Seen]) -> Synthesis:
        return Synthesis(verdict="fix", hypotheses=(Hypothesis(component=case.service),))

    async def remediate(
        self,
        case: Case,
        hypothesis: Hypothesis,
        attempt: int,
        tried: Sequence[Tried],
        executor: Executor,
    ) -> Remedy:
        executor = executor.plus(self.conclude(case))
        means = replace(self.means, executor=executor)
        run = f"{case.run}/fix-{attempt}"
        try:
            talk = await Conversation.begin(means, task=case.title, run=run, parent=case.run)
            said = await talk.say(task_for(case, self.more, tried))
        except StoreError:
            raise
        except HermesError as error:
            self.troubles.append(str(error))
            return Remedy(run=run, gave_up=str(error))
        return Remedy(run=run, summary=said[:2000])


def task_for(case: Case, more: str = "", tried: Sequence[Tried] = ()) -> str:
    """The alert as the agent is told it."""
    labels = "\n".join(f"{name}: {value}" for name, value in sorted(case.labels.items()))
    before = [f"Tried before, and taken back because it did not hold: {each.why}" for each in tried]
    return TASK.format(
        severity=case.severity,
        title=case.title,
        text="" if case.text == case.title else case.text,
        labels=labels,
        more="\n".join([*([more] if more else []), *before]),
    )
