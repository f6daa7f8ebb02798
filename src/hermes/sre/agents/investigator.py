"""One layer, looked into by one model that can only look, and says what it found with evidence."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from hermes.agent.means import Means
from hermes.core.errors import ToolError
from hermes.core.events.incidents import LayerInvestigated
from hermes.core.messages import Risk, Value
from hermes.core.protocols import Journal, Model, ToolContext
from hermes.sre.agents.evidence import free_run, numbers_in, plain, ran
from hermes.sre.agents.facts import Fact, shown
from hermes.sre.agents.read_only import ReadOnly
from hermes.sre.agents.settings import CrewSettings
from hermes.sre.agents.sitting import Sat, Seat, sit
from hermes.sre.agents.wording import FIND, investigator, the_alert
from hermes.sre.case import Case
from hermes.sre.looking import Seen
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.executor import Executor

LOOKS = frozenset({"terminal", "host_terminal", "read_file", "search_files"})
FINDING = "finding"
Status = Literal["working", "done", "failed"]
MOST = 12
"""Findings of one layer; whoever has more has not understood it."""


class Finding(Value, kw_only=True, frozen=True):
    layer: str
    claim: str
    evidence: tuple[int, ...]


@dataclass
class Notebook:
    """What one investigator has said so far; it stays when its writer is cut off."""

    layer: str
    findings: list[Finding] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    over: bool = False
    run: str = ""
    trouble: str = ""

    @property
    def silent(self) -> bool:
        return not (self.findings or self.ruled_out or self.gaps)


def looking(executor: Executor) -> Executor:
    """The road of whoever investigates: few tools, and a gate that lets nothing else pass."""
    return executor.only(set(LOOKS)).under(ReadOnly(executor.policy, frozenset({FINDING})))


def make_finding(journal: Journal, notes: Notebook, runs: Sequence[str]) -> FunctionTool:
    """`runs` are where evidence may lie: the fixed looks, and its own run."""

    @tool(risk=Risk.READ, alone=True)
    async def finding(
        context: ToolContext,
        claim: Annotated[str, about("what is wrong, in one sentence, with its value")] = "",
        evidence: Annotated[
            tuple[str | int, ...], about("numbers of facts (#12), or commands as you ran them")
        ] = (),
        ruled_out: Annotated[tuple[str, ...], about("what is well, and was looked at")] = (),
        gaps: Annotated[tuple[str, ...], about("what could not be found out")] = (),
        last: Annotated[bool, about("true: there is nothing more to say")] = False,
    ) -> str:
        """Say one thing that you found, with what shows it."""
        if claim.strip() and not evidence:
            raise ToolError("a claim without evidence is not kept: name what you ran that shows it")
        numbers = numbers_in(evidence, await ran(journal, runs))
        if claim.strip() and len(notes.findings) < MOST:
            notes.findings.append(Finding(layer=notes.layer, claim=plain(claim), evidence=numbers))
        notes.ruled_out += [plain(each, 200) for each in ruled_out if each.strip()][:MOST]
        notes.gaps += [plain(each, 200) for each in gaps if each.strip()][:MOST]
        notes.over = notes.over or last or len(notes.findings) >= MOST
        return "Written down."

    return finding


@dataclass(frozen=True)
class Investigator:
    means: Means
    model: Model
    settings: CrewSettings
    facts_run: str

    async def look_into(
        self, layer: str, case: Case, baseline: Sequence[Seen], facts: Sequence[Fact]
    ) -> Notebook:
        """Raises `StoreError` alone."""
        journal, notes = self.means.bus.journal, Notebook(layer)
        notes.run = await free_run(journal, f"{case.run}/{layer}")
        await self._tell(case, notes, "working")
        tool = make_finding(journal, notes, (self.facts_run, notes.run))
        seat = Seat(
            means=self.means,
            model=self.model,
            executor=looking(self.means.executor).plus(tool),
            budget=self.settings.looking,
            run=notes.run,
            parent=case.run,
            title=f"{layer}: {case.title}",
            system=investigator(layer),
            over=lambda: notes.over,
            reminder=FIND,
        )
        sat = await sit(seat, self._task(layer, case, baseline, facts))
        _settle(notes, sat)
        await self._tell(case, notes, "failed" if notes.trouble else "done")
        return notes

    def _task(self, layer: str, case: Case, baseline: Sequence[Seen], facts: Sequence[Fact]) -> str:
        own = [fact for fact in facts if fact.layer == layer]
        room = room_for(self.model, self.settings)
        told = shown(own, room, case.run) or "(no fixed look gave an answer)"
        return f"{the_alert(case, baseline)}\n\nFacts of your layer:\n\n{told}"

    async def _tell(self, case: Case, notes: Notebook, status: Status) -> None:
        event = LayerInvestigated(
            run=case.run,
            incident=case.incident,
            layer=notes.layer,
            agent=notes.run,
            status=status,
            findings=tuple(each.claim for each in notes.findings),
            evidence=tuple(
                dict.fromkeys(number for each in notes.findings for number in each.evidence)
            ),
            ruled_out=tuple(notes.ruled_out),
            gaps=tuple(notes.gaps),
        )
        await self.means.bus.publish(event)


def _settle(notes: Notebook, sat: Sat) -> None:
    """Words that point at nothing are no findings; that they were said is known all the same."""
    if notes.over:
        return
    if sat.trouble:
        notes.trouble = sat.trouble
        notes.gaps.append(
            plain(f"{notes.layer} was not looked into to the end: {sat.trouble}", 240)
        )
    elif notes.silent:
        notes.trouble = "it said nothing that can be checked"
        words = plain(sat.said, 160)
        notes.gaps.append(
            f"{notes.layer}: said without evidence: {words}" if words else f"{notes.layer}: nothing"
        )


def room_for(model: Model, settings: CrewSettings) -> int:
    """Characters of facts: at most about a quarter of the window."""
    return max(600, min(settings.shown, model.window))
