"""Requests that schemathesis makes from the document of the API, sent to a real server."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import anyio.to_thread
import schemathesis
from api_server import ApiServer
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import APIOperation, Case
from schemathesis.checks import CHECKS, load_all_checks
from schemathesis.core.failures import FailureGroup
from schemathesis.generation import GenerationMode

from hermes.core.events.incidents import IncidentOpened
from hermes.web.access import MAX_REQUESTS_PER_MINUTE

ENDLESS_PATHS = ("/api/events", "/api/runs/{id}/events")
"""Streams that the server does not end."""
KNOWN_IDS = {"incidents": "incident-1", "jobs": "disk"}
"""Half of the requests are about things that exist."""
RESPONSE_CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
)


@dataclass
class FuzzResult:
    statuses: Counter[int] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)


async def fuzz_api(server: ApiServer, per_operation: int, start: int = 0) -> FuzzResult:
    """Send so many requests to each operation of the document: right ones and wrong ones."""
    async with server.client("") as client:
        document = (await client.get("/openapi.json")).json()
        await client.post(
            "/api/jobs",
            json={"schedule": "every day at 9", "command": "df", "name": "disk"},
            headers={"authorization": f"Bearer {await server.token()}"},
        )
    await server.journal.append(
        IncidentOpened(run="incident-1", incident="incident-1", title="down", severity="P2")
    )
    result = FuzzResult()
    for operation in operations_of(document):
        chunk = MAX_REQUESTS_PER_MINUTE - 5
        for number in range(0, per_operation, chunk):
            token = await server.token()
            count = min(chunk, per_operation - number)
            sender = Sender(server.address, token, result)
            await anyio.to_thread.run_sync(sender.send, operation, count, start + number)
    return result


def operations_of(document: dict[str, object]) -> Iterator[APIOperation]:
    schema = schemathesis.openapi.from_dict(document)
    for found in schema.get_all_operations():
        operation = found.ok()
        if operation.path not in ENDLESS_PATHS:
            yield operation


@dataclass
class Sender:
    address: str
    token: str
    result: FuzzResult

    def send(self, operation: APIOperation, count: int, start: int) -> None:
        load_all_checks()
        checks = CHECKS.get_by_names(RESPONSE_CHECKS)
        headers = {"authorization": f"Bearer {self.token}"}
        modes = [GenerationMode.POSITIVE, GenerationMode.NEGATIVE]

        @seed(start)
        @settings(
            max_examples=count,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=operation.as_strategy(generation_mode=modes[start % 2]))
        def send(case: Case) -> None:
            if sum(self.result.statuses.values()) % 2 and case.path_parameters:
                area = case.path.split("/")[2]
                case.path_parameters["id"] = KNOWN_IDS.get(area, case.path_parameters.get("id"))
            answer = case.call(base_url=self.address, headers=headers, timeout=60)
            self.result.statuses[answer.status_code] += 1
            try:
                case.validate_response(answer, checks=checks)
            except (AssertionError, FailureGroup) as error:
                self.result.problems.append(f"{case.method} {case.path}: {error}")

        with suppress(Unsatisfiable):  # nothing can be wrong with a request without parameters
            send()
