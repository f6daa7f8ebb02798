"""Opens the learned checks of a home for the watch and for commands, and records people's marks."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from msgspec.structs import replace

from hermes.core.protocols import Environment
from hermes.settings.load import LoadedSettings
from hermes.sre.health import HealthCheckResult
from hermes.sre.probes.learned.learner import LearnedChecks
from hermes.sre.probes.learned.state import LEARNED_KIND, CheckMark, LearnedCheck
from hermes.sre.probes.learned.store import LearnedStore
from hermes.sre.probes.learned.watching import LearnedObserver
from hermes.sre.probes.native import LOCAL_ENVIRONMENT

LearnedMark = Literal["off", "on", "false-alarm"]


def open_learned_checks(
    loaded: LoadedSettings, environment: Environment, *, stored: bool
) -> LearnedObserver | None:
    """Return None where they are switched off. `stored`: whether they are kept in the home
    folder."""
    settings = loaded.settings.sre.learned
    if not settings.enabled:
        return None
    store = LearnedStore(loaded.home if stored else None, environment.target)
    local = environment.name == LOCAL_ENVIRONMENT
    return LearnedObserver(store, local=local, off=settings.disabled)


def read_learned_checks(loaded: LoadedSettings, target: str) -> tuple[LearnedCheck, ...]:
    """Read the learned checks as the watch stored them last; a running watch stores them every five
    minutes."""
    state = LearnedStore(loaded.home, target).load()
    return LearnedChecks(state, loaded.settings.sre.learned.disabled).checks()


async def list_learned_checks(loaded: LoadedSettings, folder: Path) -> tuple[LearnedCheck, ...]:
    return read_learned_checks(loaded, await _target(loaded, folder))


async def mark_learned_check(
    loaded: LoadedSettings, folder: Path, name: str, mark: LearnedMark
) -> LearnedCheck | None:
    """The check after the change; None when there is no check of this name."""
    target = await _target(loaded, folder)
    if name not in {each.name for each in read_learned_checks(loaded, target)}:
        return None
    LearnedStore(loaded.home, target).mark(name, _changes(time.time())[mark])
    return next(each for each in read_learned_checks(loaded, target) if each.name == name)


def mark_false_alarm(loaded: LoadedSettings, fingerprint: str) -> str:
    """The learned check that raised the alert with this fingerprint, now with less weight; empty
    for alerts of others."""
    head, _, name = fingerprint.rpartition("/")
    if not head.startswith("probe/") or not name.startswith(f"{LEARNED_KIND}-"):
        return ""
    store = LearnedStore(loaded.home, head.removeprefix("probe/"))
    store.mark(name, _changes(time.time())["false-alarm"])
    return name


def _changes(now: float) -> dict[LearnedMark, Callable[[CheckMark], CheckMark]]:
    return {
        "off": lambda mark: replace(mark, on=False),
        "on": lambda mark: replace(mark, on=True, weight=1.0),
        "false-alarm": lambda mark: mark.as_false_alarm(now),
    }


def learned_results(checks: Sequence[LearnedCheck]) -> list[HealthCheckResult]:
    """The learned checks that a running watch reports."""
    return [
        HealthCheckResult(name=each.name, ok=False, detail=f"{each.detail} (learned)")
        for each in checks
        if each.failing and each.reports
    ]


async def _target(loaded: LoadedSettings, folder: Path) -> str:
    from hermes.app.tools.tooling import configured_environment

    async with configured_environment(loaded, folder) as environment:
        return environment.target
