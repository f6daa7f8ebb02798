"""What people who take over an incident get to know: what was seen, and what could not be."""

from datetime import UTC, datetime

import anyio
from msgspec.structs import replace

from hermes.core.errors import HermesError, StoreError
from hermes.core.events.incidents import IncidentDiagnosed
from hermes.sre.assessing.assess import Assessment
from hermes.sre.assessing.last_words import LastWords, last_words
from hermes.sre.case import Case
from hermes.sre.ground import Ground
from hermes.sre.reflexes import numbers_of

PATIENCE = 20.0


async def hand_over(
    ground: Ground,
    case: Case,
    said: IncidentDiagnosed | None,
    assessment: Assessment | None,
    reason: str,
) -> None:
    """What was thought of it until then stays: not proved, and with why it ended here."""
    if said is not None and said.verdict == "escalate":
        return
    told = said or await _seen(ground, case, assessment or Assessment(verdict="unknown"))
    await ground.bus.publish(
        replace(
            told,
            at=datetime.now(UTC),
            verdict="escalate",
            gaps=(*told.gaps, reason[:300]),
            confidence=told.confidence / 2,
        )
    )


async def _seen(ground: Ground, case: Case, first: Assessment) -> IncidentDiagnosed:
    """Where nobody has a diagnosis: what the first look saw, and what the service says itself."""
    component, reasons = first.component or case.service, "; ".join(first.reasons)
    # Why nothing could be seen is not what was seen: it belongs to the gaps.
    seen = first.verdict != "unknown"
    mechanism, looks = first.mechanism or (reasons if seen else ""), first.evidence
    if words := await _words(ground, case, component):
        mechanism = f"{mechanism[:300]}; {words}" if mechanism else str(words)
        looks = (*looks, words.call)
    return IncidentDiagnosed(
        run=case.run,
        incident=case.incident,
        component=component,
        mechanism=mechanism[:500],
        value=first.value,
        evidence=await numbers_of(ground, case.run, looks) if mechanism else (),
        gaps=(reasons[:300],) if reasons and not seen else (),
        confidence=0.2 if mechanism else 0.0,
    )


async def _words(ground: Ground, case: Case, component: str) -> LastWords | None:
    """A host that cannot be asked any more keeps nobody from being called."""
    try:
        with anyio.move_on_after(PATIENCE):
            return await last_words(ground.road(case.run), component)
    except StoreError:
        raise
    except HermesError:
        pass
    return None
