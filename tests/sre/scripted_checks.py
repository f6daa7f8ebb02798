"""A host whose checks say what a test wants."""

from collections.abc import Sequence

from incident_host import Host
from msgspec import structs

from hermes.core.incident import IncidentDetails
from hermes.sre.checks import CheckResult, IndependentChecks


class Scripted(Host):
    """A host whose checks say what a test wants, look after look; the last look is repeated."""

    looks: Sequence[Sequence[CheckResult]] = ()
    asked = 0

    async def checks_for(self, case: IncidentDetails) -> IndependentChecks:
        async def see() -> Sequence[CheckResult]:
            self.asked += 1
            return self.looks[min(self.asked, len(self.looks)) - 1]

        return see


def failed(check: str, *, proves: bool = True) -> CheckResult:
    return CheckResult(check=check, ok=False, detail="bad", proves=proves)


def passed(check: str, *, proves: bool = True) -> CheckResult:
    return CheckResult(check=check, ok=True, proves=proves)


def of(service: str, result: CheckResult) -> CheckResult:
    return structs.replace(result, service=service)
