"""Investigates each layer of a host with a read-only model, and combines the findings."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Literal

from msgspec.structs import replace

from hermes.agent.dependencies import AgentDependencies
from hermes.core.errors import ToolError
from hermes.core.events.incidents import DiagnosisVerdict, LayerInvestigated
from hermes.core.foreign_text import clean_line
from hermes.core.incident import IncidentDetails, read_hints
from hermes.core.messages import Risk, Value
from hermes.core.protocols import Journal, Model, ToolContext
from hermes.policy.taint.data_marks import mark_as_data
from hermes.sre.checks import CheckResult
from hermes.sre.model_responder import Hypothesis, InvestigationResult
from hermes.sre.policies import ReadOnlyPolicy
from hermes.sre.reports.actions import IncidentAction
from hermes.sre.responders.agent_run import AgentRun, AgentRunResult, run_agent
from hermes.sre.responders.host_facts import (
    HostFact,
    next_free_run,
    read_finished_actions,
    render_evidence,
    render_facts,
    resolve_references,
)
from hermes.sre.responders.prompts import (
    CONCLUDE_REMINDER,
    FINDING_REMINDER,
    render_alert,
    render_investigator_prompt,
    render_synthesis_prompt,
)
from hermes.sre.settings import CrewSettings
from hermes.tools.declare import FunctionTool, about, tool
from hermes.tools.executor import Executor

READ_ONLY_TOOLS = frozenset(
    {"terminal", "host_terminal", "read_file", "search_files"}
    | {"browser_navigate", "browser_snapshot", "browser_scroll", "browser_back"}
    | {"browser_get_images", "browser_console", "browser_vision", "browser_close"}
    | {"web_search", "web_extract"}
)
FINDING_TOOL = "finding"
LayerStatus = Literal["working", "done", "failed"]
MAX_FINDINGS = 12
"""Findings of one layer that are kept."""
SYNTHESIS_ROLE = "synthesis"
MAX_HYPOTHESES = 3
MAX_FIELD_CHARS = 500
CheckObjection = Callable[[str], Awaitable[str]]
"""Returns why a proposed check is useless; empty when it is not."""


class LayerFinding(Value, kw_only=True, frozen=True):
    layer: str
    claim: str
    evidence: tuple[int, ...]


@dataclass
class LayerNotes:
    """The findings of one investigator so far; they are kept when its run is stopped."""

    layer: str
    findings: list[LayerFinding] = field(default_factory=list)
    ruled_out: list[str] = field(default_factory=list)
    gaps: list[str] = field(default_factory=list)
    finished: bool = False
    run: str = ""
    error: str = ""

    @property
    def is_empty(self) -> bool:
        return not (self.findings or self.ruled_out or self.gaps)


def read_only_executor(executor: Executor) -> Executor:
    """An executor with only the tools that read, ours and those that a person classed so, and a
    policy that denies changes."""
    return executor.with_only({*READ_ONLY_TOOLS, *executor.classed_reads}).with_policy(
        ReadOnlyPolicy(executor.policy, frozenset({FINDING_TOOL}))
    )


def make_finding_tool(journal: Journal, notes: LayerNotes, runs: Sequence[str]) -> FunctionTool:
    """`runs`: the runs whose calls may be evidence."""

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
        numbers = resolve_references(evidence, await read_finished_actions(journal, runs))
        if claim.strip() and len(notes.findings) < MAX_FINDINGS:
            notes.findings.append(
                LayerFinding(layer=notes.layer, claim=clean_line(claim, 400), evidence=numbers)
            )
        notes.ruled_out += _clean_lines(ruled_out)[:MAX_FINDINGS]
        notes.gaps += _clean_lines(gaps)[:MAX_FINDINGS]
        notes.finished = notes.finished or last or len(notes.findings) >= MAX_FINDINGS
        return "Written down."

    return finding


def _clean_lines(texts: Sequence[str]) -> list[str]:
    return [clean_line(each, 200) for each in texts if each.strip()]


@dataclass(frozen=True)
class LayerInvestigator:
    dependencies: AgentDependencies
    model: Model
    settings: CrewSettings
    facts_run: str

    async def investigate(
        self,
        layer: str,
        details: IncidentDetails,
        baseline: Sequence[CheckResult],
        facts: Sequence[HostFact],
    ) -> LayerNotes:
        """Raises only `StoreError`."""
        journal, notes = self.dependencies.bus.journal, LayerNotes(layer)
        notes.run = await next_free_run(journal, f"{details.run}/{layer}")
        await self._publish_progress(details, notes, "working")
        tool = make_finding_tool(journal, notes, (self.facts_run, notes.run))
        agent = AgentRun(
            dependencies=self.dependencies,
            model=self.model,
            executor=read_only_executor(self.dependencies.executor).with_tool(tool),
            budget=self.settings.looking,
            run=notes.run,
            parent=details.run,
            title=f"{layer}: {details.title}",
            system=render_investigator_prompt(layer),
            finished=lambda: notes.finished,
            reminder=FINDING_REMINDER,
        )
        hints = await read_hints(journal, details.run)
        alert = render_alert(details, baseline, hints)
        result = await run_agent(agent, self._task(layer, details, alert, facts))
        _note_missing_answer(notes, result)
        await self._publish_progress(details, notes, "failed" if notes.error else "done")
        return notes

    def _task(
        self,
        layer: str,
        details: IncidentDetails,
        alert: str,
        facts: Sequence[HostFact],
    ) -> str:
        own = [fact for fact in facts if fact.layer == layer]
        max_chars = max_facts_chars(self.model, self.settings)
        shown_facts = render_facts(own, max_chars, details.run) or "(no facts were collected)"
        return f"{alert}\n\nFacts of your layer:\n\n{shown_facts}"

    async def _publish_progress(
        self, details: IncidentDetails, notes: LayerNotes, status: LayerStatus
    ) -> None:
        event = LayerInvestigated(
            run=details.run,
            incident=details.incident,
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
        await self.dependencies.bus.publish(event)


def _note_missing_answer(notes: LayerNotes, result: AgentRunResult) -> None:
    """Note a run that failed, or that reported nothing with evidence."""
    if notes.finished:
        return
    if result.error:
        notes.error = result.error
        notes.gaps.append(
            clean_line(f"{notes.layer} was not investigated completely: {result.error}", 240)
        )
    elif notes.is_empty:
        notes.error = "it reported nothing that can be checked"
        words = clean_line(result.reply, 160)
        notes.gaps.append(
            f"{notes.layer}: reported without evidence: {words}"
            if words
            else f"{notes.layer}: nothing"
        )


def max_facts_chars(model: Model, settings: CrewSettings) -> int:
    """Characters of facts in a prompt: at most about a quarter of the context window."""
    return max(600, min(settings.shown, model.window))


class ProposedHypothesis(Value, kw_only=True, frozen=True, forbid_unknown_fields=True):
    component: Annotated[str, about("one file, unit, table or link")]
    mechanism: Annotated[str, about("how it breaks the service, in one sentence")] = ""
    value: Annotated[str, about("the concrete value that is wrong")] = ""
    evidence: Annotated[tuple[str | int, ...], about("numbers of looks, as #12")] = ()
    confidence: Annotated[float, about("from 0 to 1")] = 0.5
    check: Annotated[str, about("only looks; fails now, ends with 0 once repaired")] = ""
    fix: Annotated[str, about("the least destructive way, in words")] = ""


@dataclass(frozen=True)
class InvestigationFindings:
    notes: Sequence[LayerNotes]
    facts: Sequence[HostFact]
    actions: Sequence[IncidentAction]
    """All finished calls, for the evidence."""


def make_conclude_tool(
    conclusions: list[InvestigationResult],
    actions: Sequence[IncidentAction],
    find_objection: CheckObjection,
) -> FunctionTool:
    """The tool adds a conclusion, once it is valid."""

    @tool(risk=Risk.READ, alone=True)
    async def conclude(
        context: ToolContext,
        verdict: DiagnosisVerdict,
        hypotheses: Annotated[tuple[ProposedHypothesis, ...], about("the likeliest first")] = (),
        ruled_out: tuple[str, ...] = (),
        gaps: Annotated[tuple[str, ...], about("what is still not known")] = (),
    ) -> str:
        """Give your judgement of what was found."""
        if verdict == "fix" and not hypotheses:
            raise ToolError(
                "a verdict of fix needs a hypothesis: what is broken, and what shows it"
            )
        found = [_accepted_hypothesis(proposed, actions) for proposed in hypotheses]
        kept, missing = await _without_useless_checks(_ranked(found), find_objection)
        conclusions.append(
            InvestigationResult(
                verdict=verdict,
                hypotheses=kept,
                ruled_out=tuple(_clean_lines(ruled_out)),
                gaps=(*_clean_lines(gaps), *missing),
            )
        )
        return "Written down."

    return conclude


def _accepted_hypothesis(
    proposed: ProposedHypothesis, actions: Sequence[IncidentAction]
) -> Hypothesis:
    if not proposed.component.strip():
        raise ToolError("a hypothesis needs its component: one file, unit, table or link")
    if not proposed.evidence:
        raise ToolError(
            f"{proposed.component[:80]!r} has no evidence: give numbers of looks, as #12"
        )
    confidence = proposed.confidence if proposed.confidence == proposed.confidence else 0.0  # NaN
    return Hypothesis(
        component=clean_line(proposed.component, 200),
        mechanism=clean_line(proposed.mechanism, MAX_FIELD_CHARS),
        value=clean_line(proposed.value, 200),
        evidence=resolve_references(proposed.evidence, actions),
        confidence=max(0.0, min(1.0, confidence)),
        check=proposed.check.strip()[:MAX_FIELD_CHARS],
        fix=clean_line(proposed.fix, MAX_FIELD_CHARS),
    )


def _ranked(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The most confident first, each cause once."""
    once = {(each.component, each.value or each.mechanism): each for each in reversed(found)}
    return sorted(reversed(once.values()), key=lambda each: -each.confidence)[:MAX_HYPOTHESES]


async def _without_useless_checks(
    found: Sequence[Hypothesis], find_objection: CheckObjection
) -> tuple[tuple[Hypothesis, ...], tuple[str, ...]]:
    """Drop proposed checks that do not show the problem, and report each as a gap."""
    kept, missing = list[Hypothesis](), list[str]()
    for each in found:
        why = await find_objection(each.check) if each.check else ""
        if why:
            missing.append(f"the check proposed for {each.component} is useless: {why}"[:240])
        kept.append(replace(each, check="") if why else each)
    return tuple(kept), tuple(missing)


async def run_synthesis(
    dependencies: AgentDependencies,
    model: Model,
    settings: CrewSettings,
    details: IncidentDetails,
    baseline: Sequence[CheckResult],
    found: InvestigationFindings,
    find_objection: CheckObjection,
) -> InvestigationResult:
    """Raises only `StoreError`."""
    conclusions: list[InvestigationResult] = []
    # No tool that reaches the host: the synthesis only uses the findings.
    tool = make_conclude_tool(conclusions, found.actions, find_objection)
    agent = AgentRun(
        dependencies=dependencies,
        model=model,
        executor=dependencies.executor.with_only(set()).with_tool(tool),
        budget=settings.judging,
        run=await next_free_run(dependencies.bus.journal, f"{details.run}/{SYNTHESIS_ROLE}"),
        parent=details.run,
        title=f"{SYNTHESIS_ROLE}: {details.title}",
        system=render_synthesis_prompt(),
        finished=lambda: bool(conclusions),
        reminder=CONCLUDE_REMINDER,
        use_memory=True,
    )
    alert = render_alert(details, baseline, await read_hints(dependencies.bus.journal, details.run))
    max_chars = max_facts_chars(model, settings)
    result = await run_agent(agent, render_synthesis_task(details, alert, found, max_chars))
    if conclusions:
        return conclusions[-1]
    why = f"the findings were not combined: {result.error or 'it gave no valid conclusion'}"
    return escalation_without_judgement(details, found.notes, why)


def render_synthesis_task(
    details: IncidentDetails,
    alert: str,
    found: InvestigationFindings,
    max_chars: int,
) -> str:
    """Findings with their evidence first; facts fill the remaining space."""
    parts, cited = [alert], set[int]()
    for notes in found.notes:
        text = _render_layer(notes, found.actions, details.run)
        cited.update(number for each in notes.findings for number in each.evidence)
        parts.append(text)
    left = max_chars - sum(map(len, parts[1:]))
    rest = [fact for fact in found.facts if fact.seq not in cited]
    if left > 0 and rest:
        parts.append(f"Other facts:\n\n{render_facts(rest, left, details.run)}")
    return "\n\n".join(parts)


def _render_layer(notes: LayerNotes, actions: Sequence[IncidentAction], key: str) -> str:
    """Marked as data: a model that has read logs wrote the claims."""
    lines = [
        f"found: {each.claim} ({' '.join(f'#{number}' for number in each.evidence)})"
        for each in notes.findings
    ]
    lines += [f"ruled out: {each}" for each in notes.ruled_out]
    lines += [f"not known: {each}" for each in notes.gaps]
    claims = mark_as_data("\n".join(lines) or "nothing", f"the investigator of {notes.layer}", key)
    cited = render_evidence(
        [number for each in notes.findings for number in each.evidence], actions, key
    )
    return "\n".join(part for part in (f"Layer {notes.layer}:", claims, cited) if part)


def escalation_without_judgement(
    details: IncidentDetails, notes: Sequence[LayerNotes], why: str
) -> InvestigationResult:
    """Escalate with the findings when there is no conclusion."""
    findings = [each for one in notes for each in one.findings]
    return InvestigationResult(
        verdict="escalate",
        hypotheses=tuple(
            Hypothesis(
                component=details.service or each.layer,
                mechanism=each.claim,
                evidence=each.evidence,
            )
            for each in findings[:MAX_HYPOTHESES]
        ),
        ruled_out=tuple(each for one in notes for each in one.ruled_out)[:20],
        gaps=(clean_line(why, 300), *(each for one in notes for each in one.gaps))[:20],
    )
