"""What the findings come to: one judgement, checked before it counts, and none where it fails."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Annotated

from msgspec.structs import replace

from hermes.agent.means import Means
from hermes.core.errors import ToolError
from hermes.core.events.incidents import Verdict
from hermes.core.messages import Risk, Value
from hermes.core.protocols import Model, ToolContext
from hermes.policy.data_marks import as_data
from hermes.sre.agents.evidence import free_run, numbers_in, plain, quoted
from hermes.sre.agents.facts import Fact, shown
from hermes.sre.agents.investigator import Notebook, room_for
from hermes.sre.agents.settings import CrewSettings
from hermes.sre.agents.sitting import Seat, sit
from hermes.sre.agents.wording import CONCLUDE, judge, the_alert
from hermes.sre.case import Case
from hermes.sre.looking import Seen
from hermes.sre.minds import Hypothesis, Synthesis
from hermes.sre.report.told import Deed
from hermes.tools.declare import FunctionTool, about, tool

NAME = "synthesis"
MOST = 3
LENGTH = 500
Useless = Callable[[str], Awaitable[str]]
"""Why a proposed check is of no use, in words; empty when it is."""


class Guess(Value, kw_only=True, frozen=True, forbid_unknown_fields=True):
    component: Annotated[str, about("one file, unit, table or link")]
    mechanism: Annotated[str, about("how it breaks the service, in one sentence")] = ""
    value: Annotated[str, about("the concrete value that is wrong")] = ""
    evidence: Annotated[tuple[str | int, ...], about("numbers of looks, as #12")] = ()
    confidence: Annotated[float, about("from 0 to 1")] = 0.5
    check: Annotated[str, about("only looks; fails now, ends with 0 once mended")] = ""
    fix: Annotated[str, about("the least destructive way, in words")] = ""


@dataclass(frozen=True)
class Found:
    notes: Sequence[Notebook]
    facts: Sequence[Fact]
    seen: Sequence[Deed]
    """All that was run, for the evidence."""


@dataclass
class Sheet:
    """Where the judgement is written, once it holds water."""

    synthesis: Synthesis | None = None


def make_conclude(sheet: Sheet, seen: Sequence[Deed], useless: Useless) -> FunctionTool:
    @tool(risk=Risk.READ, alone=True)
    async def conclude(
        context: ToolContext,
        verdict: Verdict,
        hypotheses: Annotated[tuple[Guess, ...], about("the likeliest first")] = (),
        ruled_out: tuple[str, ...] = (),
        gaps: Annotated[tuple[str, ...], about("what is still not known")] = (),
    ) -> str:
        """Give your judgement of what was found."""
        if verdict == "fix" and not hypotheses:
            raise ToolError(
                "a verdict of fix needs a hypothesis: what is broken, and what shows it"
            )
        found = [_hypothesis(guess, seen) for guess in hypotheses]
        kept, missing = await _checked(_ranked(found), useless)
        sheet.synthesis = Synthesis(
            verdict=verdict,
            hypotheses=kept,
            ruled_out=tuple(plain(each, 200) for each in ruled_out if each.strip()),
            gaps=(*(plain(each, 200) for each in gaps if each.strip()), *missing),
        )
        return "Written down."

    return conclude


def _hypothesis(guess: Guess, seen: Sequence[Deed]) -> Hypothesis:
    if not guess.component.strip():
        raise ToolError("a hypothesis needs its component: one file, unit, table or link")
    if not guess.evidence:
        raise ToolError(f"{guess.component[:80]!r} has no evidence: give numbers of looks, as #12")
    sure = guess.confidence if guess.confidence == guess.confidence else 0.0  # not a number
    return Hypothesis(
        component=plain(guess.component, 200),
        mechanism=plain(guess.mechanism, LENGTH),
        value=plain(guess.value, 200),
        evidence=numbers_in(guess.evidence, seen),
        confidence=max(0.0, min(1.0, sure)),
        check=guess.check.strip()[:LENGTH],
        fix=plain(guess.fix, LENGTH),
    )


def _ranked(found: Sequence[Hypothesis]) -> list[Hypothesis]:
    """The surest first, each cause once."""
    once = {(each.component, each.value or each.mechanism): each for each in reversed(found)}
    return sorted(reversed(once.values()), key=lambda each: -each.confidence)[:MOST]


async def _checked(
    found: Sequence[Hypothesis], useless: Useless
) -> tuple[tuple[Hypothesis, ...], tuple[str, ...]]:
    """A check that cannot tell broken from mended is dropped, and that is a gap."""
    kept, missing = list[Hypothesis](), list[str]()
    for each in found:
        why = await useless(each.check) if each.check else ""
        if why:
            missing.append(f"the check proposed for {each.component} is of no use: {why}"[:240])
        kept.append(replace(each, check="") if why else each)
    return tuple(kept), tuple(missing)


async def judged(
    means: Means,
    model: Model,
    settings: CrewSettings,
    case: Case,
    baseline: Sequence[Seen],
    found: Found,
    useless: Useless,
) -> Synthesis:
    """Raises `StoreError` alone."""
    sheet = Sheet()
    # No tool that reaches the host: whoever judges has only what others found.
    tool = make_conclude(sheet, found.seen, useless)
    seat = Seat(
        means=means,
        model=model,
        executor=means.executor.only(set()).plus(tool),
        budget=settings.judging,
        run=await free_run(means.bus.journal, f"{case.run}/{NAME}"),
        parent=case.run,
        title=f"{NAME}: {case.title}",
        system=judge(),
        over=lambda: sheet.synthesis is not None,
        reminder=CONCLUDE,
        recalls=True,
    )
    sat = await sit(seat, task(case, baseline, found, room_for(model, settings)))
    if sheet.synthesis is not None:
        return sheet.synthesis
    why = sat.trouble or "it did not say what it thinks in a way that can be checked"
    return fallback(case, found.notes, f"no judgement was made of what was found: {why}")


def task(case: Case, baseline: Sequence[Seen], found: Found, room: int) -> str:
    """Findings first, with what shows them; facts fill what room is left."""
    parts, cited = [the_alert(case, baseline)], set[int]()
    for notes in found.notes:
        told = _told(notes, found.seen, case.run)
        cited.update(number for each in notes.findings for number in each.evidence)
        parts.append(told)
    left = room - sum(map(len, parts[1:]))
    rest = [fact for fact in found.facts if fact.seq not in cited]
    if left > 0 and rest:
        parts.append(f"Fixed looks that nobody pointed at:\n\n{shown(rest, left, case.run)}")
    return "\n\n".join(parts)


def _told(notes: Notebook, seen: Sequence[Deed], key: str) -> str:
    """Its claims were put in words by a model that had read logs: they are data as well."""
    lines = [
        f"found: {each.claim} ({' '.join(f'#{number}' for number in each.evidence)})"
        for each in notes.findings
    ]
    lines += [f"ruled out: {each}" for each in notes.ruled_out]
    lines += [f"not known: {each}" for each in notes.gaps]
    claims = as_data("\n".join(lines) or "nothing", f"whoever looked into {notes.layer}", key)
    cited = quoted([number for each in notes.findings for number in each.evidence], seen, key)
    return "\n".join(part for part in (f"Layer {notes.layer}:", claims, cited) if part)


def fallback(case: Case, notes: Sequence[Notebook], why: str) -> Synthesis:
    """Without a judgement nobody acts: people get what was found."""
    findings = [each for one in notes for each in one.findings]
    return Synthesis(
        verdict="escalate",
        hypotheses=tuple(
            Hypothesis(
                component=case.service or each.layer, mechanism=each.claim, evidence=each.evidence
            )
            for each in findings[:MOST]
        ),
        ruled_out=tuple(each for one in notes for each in one.ruled_out)[:20],
        gaps=(plain(why, 300), *(each for one in notes for each in one.gaps))[:20],
    )
