"""Joins the people who may answer with the gate that asks, when there first is a question."""

import fcntl
import os
import pwd
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from hermes.app.gate import Gate, always_file
from hermes.app.veil import Veil
from hermes.core.actions import Action, Answers, Approval, Approver, Decision
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.core.events.approvals import ApprovalRequested
from hermes.settings.load import Loaded

if TYPE_CHECKING:
    from hermes.policy.approvals import Approvals


INCIDENT, WATCH = "incident-", "watch"
"""Incidents are worked on by the watch of a home, all in one process."""


async def nobody(action: Action, decision: Decision) -> Approval:
    """Where no person can be asked, the answer is no."""
    return Approval(approved=False, by="nobody")


class People:
    """The `Approver` of a house: whoever sits here, and everybody who reaches the journal."""

    def __init__(
        self, loaded: Loaded, bus: Bus, gate: Gate, veil: Veil, party: Approver | Answers
    ) -> None:
        self._loaded = loaded
        self._bus = bus
        self._gate = gate
        self._veil = veil
        self._party = None if party is nobody else party
        self._approvals: Approvals | None = None

    async def __call__(self, action: Action, decision: Decision) -> Approval:
        if self._approvals is None:
            self._approvals = self._open()
        return await self._approvals(action, decision)

    def _open(self) -> "Approvals":
        from hermes.policy.approvals import Approvals
        from hermes.policy.approvals_request import Manners

        settings = self._loaded.settings.policy
        return Approvals(
            self._bus,
            self._gate.decide,
            Manners(requester=user_name(), groups=settings.groups, wait=settings.wait),
            self._party,
            keep=partial(_keep, self._loaded),
            redact=self._veil,
        )


def _keep(loaded: Loaded, request: ApprovalRequested, by: str) -> str:
    from hermes.policy.allowlist import allow_always

    days = loaded.settings.policy.always_days
    try:
        allow_always(
            always_file(loaded), action=request.hash, shown=request.shown, owner=by, days=days
        )
    except (SettingsError, OSError) as error:
        return f"approved once; always could not be kept: {error}"
    return ""


def user_name() -> str:
    """Who runs this process, by the system's word and not by a variable that anybody can set."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a number without a name
        return f"uid {os.getuid()}"


def lives(loaded: Loaded, run: str) -> bool:
    """Whether a process works on this run now, and so hears an answer at once."""
    whole = run.partition("/")[0]  # a subagent lives in the process of its parent
    return _held(loaded, whole) or (whole.startswith(INCIDENT) and _held(loaded, WATCH))


def _held(loaded: Loaded, name: str) -> bool:
    file: Path = loaded.home / "locks" / f"{name}.lock"
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(descriptor)
    return False
