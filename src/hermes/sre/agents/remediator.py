"""One attempt to mend it: a model with changing tools, on a road that writes down each way back."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from hermes.agent.means import Means
from hermes.core.messages import Risk
from hermes.core.protocols import Model, ToolContext
from hermes.sre.agents.evidence import FACTS, free_run, plain, quoted, ran, runs_below
from hermes.sre.agents.read_only import looks_only
from hermes.sre.agents.settings import CrewSettings
from hermes.sre.agents.sitting import Sat, Seat, sit
from hermes.sre.agents.wording import DONE, remediator, the_alert, the_attempts, the_hypothesis
from hermes.sre.case import Case
from hermes.sre.minds import Hypothesis, Remedy, Tried
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.executor import Executor

HANDS = frozenset(
    {"terminal", "host_terminal", "read_file", "search_files", "write_file", "patch", "process"}
)


@dataclass
class Word:
    """What it says of its work in the end; nobody has to believe it."""

    remedy: Remedy | None = None


def make_done(word: Word, run: str) -> FunctionTool:
    @tool(risk=Risk.READ, alone=True)
    async def done(
        context: ToolContext,
        summary: Annotated[str, about("what you changed and why, in a few sentences")],
        check: Annotated[str, about("a command that only looks and now ends with 0")] = "",
        gave_up: Annotated[str, about("why nothing could be done; else empty")] = "",
    ) -> str:
        """End your work. Checks that you have no hand in then say whether it holds."""
        word.remedy = Remedy(
            run=run,
            summary=plain(summary, 2000),
            check=check.strip() if looks_only(check) else "",
            gave_up=plain(gave_up, 500),
        )
        return "Written down."

    return done


async def mended(
    means: Means,
    model: Model,
    settings: CrewSettings,
    case: Case,
    hypothesis: Hypothesis,
    attempt: int,
    tried: Sequence[Tried],
    executor: Executor,
) -> Remedy:
    """Raises `StoreError` alone. Out of budget or dead, what it changed stands for the checks."""
    journal, word = means.bus.journal, Word()
    run = await free_run(journal, f"{case.run}/fix-{attempt}")
    seat = Seat(
        means=means,
        model=model,
        executor=executor.only(set(HANDS)).plus(make_done(word, run)),
        budget=settings.mending,
        run=run,
        parent=case.run,
        title=f"fix {attempt}: {case.title}",
        system=remediator(),
        over=lambda: word.remedy is not None,
        reminder=DONE,
        recalls=True,
    )
    runs = await runs_below(journal, case.run, (FACTS, *settings.layers))
    shown = quoted(hypothesis.evidence, await ran(journal, runs), case.run)
    parts = (
        the_alert(case),
        the_hypothesis(hypothesis, case.run),
        f"What shows it:\n{shown}" if shown else "",
        the_attempts(tried, case.run),
    )
    sat = await sit(seat, "\n\n".join(part for part in parts if part))
    return word.remedy or _without_a_word(sat)


def _without_a_word(sat: Sat) -> Remedy:
    why = sat.trouble or "it ended without saying what it did"
    return Remedy(run=sat.run, summary=plain(sat.said, 2000), gave_up=why)
