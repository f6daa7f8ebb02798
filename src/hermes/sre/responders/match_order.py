"""The order in which playbooks that found something run: faults of the incident's own service come
first."""

from typing import TYPE_CHECKING

from hermes.sre.checks import mentioned_services
from hermes.sre.context import IncidentWork

if TYPE_CHECKING:
    from hermes.sre.responders.playbooks import SignatureMatch, SignatureScan


class MatchOrder:
    """What is found of other services comes last, and is left to the incidents of these services
    where they have one."""

    def __init__(self, work: IncidentWork, scan: "SignatureScan") -> None:
        self._work, self._scan = work, scan
        self._held: list[SignatureMatch] = []
        self.left_to_others = ""
        """The last fault that was left to another incident, in words."""

    async def next_match(self) -> "SignatureMatch | None":
        while (matched := await self._scan.next_match()) is not None:
            unit = matched.found.values.get("unit", "").removesuffix(".service")
            if self._is_about(unit):
                return matched
            if unit in self._work.context.other_problems(self._work.details).services:
                fault = f"{matched.candidate.skill.name} found a fault of {unit}"
                self.left_to_others = f"{fault}, which has an incident of its own"
            else:
                self._held.append(matched)
        return self._held.pop(0) if self._held else None

    def _is_about(self, unit: str) -> bool:
        details = self._work.details
        if not (unit and details.service):
            return True
        named = mentioned_services(details.facts.combined_text, {unit})
        return unit in {details.service.removesuffix(".service"), *named}
