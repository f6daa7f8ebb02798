"""From an alert to a mended host without a model: the playbooks that may fit, one after the other.

Their probes only look. The first that finds its signature on the live host acts; if its checks do
not hold afterwards it takes everything back, and the next may look.
"""

import time
from collections.abc import Sequence
from typing import Protocol

from hermes.core.messages import Value
from hermes.skills.playbook.ending import Ended
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.runner import Execute, Played, Publish, Runner, nowhere
from hermes.skills.playbook.schema import Playbook


class Playable(Protocol):
    """A skill with a runnable half."""

    @property
    def name(self) -> str: ...
    @property
    def digest(self) -> str: ...
    @property
    def playbook(self) -> Playbook | None: ...


class Response(Value, kw_only=True, frozen=True):
    played: Played | None = None
    """The one that acted last; None when none found its signature."""
    tried: tuple[Played, ...] = ()
    seconds: float = 0.0

    @property
    def resolved(self) -> bool:
        return self.played is not None and self.played.outcome == "applied"


async def respond(
    facts: Facts,
    candidates: Sequence[Playable],
    execute: Execute,
    *,
    publish: Publish = nowhere,
    run: str = "",
    patience: float = 60.0,
) -> Response:
    """Candidates come best first. After `patience` seconds no further one begins."""
    began, tried = time.monotonic(), []
    acted: Played | None = None
    seen: dict[str, Ended] = {}
    for skill in candidates:
        if skill.playbook is None or time.monotonic() - began > patience:
            continue
        runner = Runner(
            skill.name,
            skill.playbook,
            execute,
            publish=publish,
            run=run,
            digest=skill.digest,
            seen=seen,
        )
        played = await runner.play(facts)
        if played.outcome != "applied" and played.changed:
            played = await runner.undo(played)
        tried.append(played)
        if played.outcome != "declined":
            acted = played
        if played.outcome == "applied" or played.not_undone:
            break  # mended; or in a state that no other playbook was written for
    return Response(played=acted, tried=tuple(tried), seconds=time.monotonic() - began)
