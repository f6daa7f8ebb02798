"""Which incident fixes what, and which ones wait for it."""

import anyio
import pytest

from hermes.sre.coordination import CauseClaims

pytestmark = pytest.mark.anyio
CONFIG = "file /etc/redis/redis.conf"


async def test_an_experiment_waits_for_a_playbook_that_changes_the_same_file() -> None:
    claims, order = CauseClaims(), list[str]()
    assert claims.claim_fault("incident-1", "cp kept /etc/redis/redis.conf", [CONFIG]) == ""
    claims.begin_fix("incident-1", ["redis"])

    async def revert() -> None:
        order.append(f"waited: {await claims.claim('incident-2', [f'{CONFIG} (line 3)'])}")

    async with anyio.create_task_group() as group:
        group.start_soon(revert)
        await anyio.wait_all_tasks_blocked()
        order.append("fixed")
        claims.end_fix("incident-1")
    assert order == ["fixed", "waited: True"]


async def test_a_playbook_leaves_a_file_to_the_experiment_that_puts_it_back() -> None:
    claims = CauseClaims()
    await claims.claim("incident-1", [f"{CONFIG} (line 3)"])
    assert claims.claim_fault("incident-2", "cp kept /etc/redis/redis.conf", [CONFIG])
    assert not claims.claim_fault("incident-3", "cp kept /etc/nginx.conf", ["file /etc/nginx.conf"])


@pytest.mark.parametrize(
    ("text", "waits"),
    [
        ("shop: status 500; shop says: redis: connection refused", True),
        ("shop: no answer from 127.0.0.1:6379", True),
        ("shop: predis is slow", False),
    ],
)
async def test_what_suffers_from_a_fault_waits_while_people_are_asked_about_its_fix(
    text: str, waits: bool
) -> None:
    claims, called = CauseClaims(fix_wait_s=0.0), anyio.Event()
    claims.begin_fix("incident-1", ["redis", "127.0.0.1:6379"])

    async def call_people() -> None:
        await claims.wait_for_fixes("incident-2", text)
        called.set()

    async with anyio.create_task_group() as group:
        group.start_soon(call_people)
        await anyio.sleep(0.1)
        assert called.is_set() is not waits
        claims.end_fix("incident-1")
    assert called.is_set()


async def test_two_incidents_never_wait_for_each_other() -> None:
    claims = CauseClaims()
    for incident, other in (("incident-1", "incident-2"), ("incident-2", "incident-1")):
        claims.claim_fault(incident, f"fault of {incident}")
        claims.begin_fix(incident)
        claims.claim_fault(other, f"fault of {incident}")
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(claims.wait_for_owners, "incident-1")
            group.start_soon(claims.wait_for_owners, "incident-2")
