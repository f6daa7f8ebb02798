"""Runs one round of all health checks."""

from collections.abc import Awaitable, Callable, Sequence

import anyio

from hermes.core.errors import HermesError, StoreError
from hermes.core.events.operations import HealthChecked
from hermes.core.incident import WATCH_RUN
from hermes.core.messages import Value


class HealthCheckResult(Value, kw_only=True, frozen=True):
    """The result of one probe; `ok` is None when it could not be run."""

    name: str
    ok: bool | None
    detail: str = ""
    about_host: bool = False
    """Whether it says how busy or full the host is, and nothing of a service."""


RunHealthChecks = Callable[[], Awaitable[Sequence[HealthCheckResult]]]


async def run_health_round(
    run_checks: RunHealthChecks, timeout: float
) -> tuple[HealthChecked, Sequence[HealthCheckResult]]:
    """Run one round now. A probe that could not be run, or not in time, is unknown, not ok."""
    began = anyio.current_time()
    found: Sequence[HealthCheckResult] = ()
    problem = ""
    try:
        with anyio.fail_after(timeout):
            found = await run_checks()
    except StoreError:
        raise
    except TimeoutError:
        problem = f"the round did not end within {timeout:g} s"
    except HermesError as error:
        problem = str(error)
    if problem:
        found = [HealthCheckResult(name="the health round", ok=None, detail=problem)]
    failing = tuple(each.name for each in found if each.ok is False)
    unknown = tuple(each.name for each in found if each.ok is None)
    checked = HealthChecked(
        run=WATCH_RUN,
        ok=not failing and not unknown,
        checks=0 if problem else len(found),
        failing=failing,
        unknown=unknown,
        about_host=tuple(each.name for each in found if each.ok is False and each.about_host),
        seconds=round(anyio.current_time() - began, 3),
    )
    return checked, found
