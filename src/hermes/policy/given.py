"""An action that somebody wrote down by hand, for `hermes policy check` and for PolicyTests."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, get_args

import msgspec

from hermes.core.actions import Action
from hermes.core.errors import SettingsError
from hermes.core.events.happening import Origin
from hermes.core.messages import Risk, ToolCall
from hermes.policy.action import Situation
from hermes.policy.deed import IncidentFacts, Whereabouts
from hermes.policy.schema import Given
from hermes.policy.shape import suggest

_READERS = ("read_file", "search_files", "todo", "clarify", "delegate")


def given_of(data: Mapping[str, Any]) -> Given:
    """Raises `SettingsError` that says which key does not fit."""
    known = [field.name for field in msgspec.structs.fields(Given)]
    for key in data:
        if key not in known:
            raise SettingsError(f"unknown key {key!r}; {suggest(str(key), known)}")
    try:
        return msgspec.convert(dict(data), Given)
    except msgspec.ValidationError as error:
        raise SettingsError(f"this is not an action: {error}") from error


def action_of(given: Given) -> Action:
    origins = get_args(Origin)
    if given.origin not in origins:
        raise SettingsError(f"no origin {given.origin!r}; {suggest(given.origin, origins)}")
    tool = given.tool or "terminal"
    arguments = {**given.arguments}
    if given.command and tool == "terminal":
        arguments.setdefault("command", given.command)
    risk = Risk.READ if tool in _READERS else Risk(given.risk)
    place = given.target if isinstance(given.target, str) else given.target.get("host", "")
    return Action(
        call=ToolCall("given", tool, arguments),
        risk=risk,
        run=given.run,
        origin=msgspec.convert(given.origin, Origin),
        environment=given.environment,
        target=place,
        isolated=given.isolated,
    )


def situation_of(given: Given, *, cwd: str, home: str) -> Situation:
    """What is not said is as it is here."""
    target = given.target if isinstance(given.target, dict) else {}
    unknown = set(target) - set(Whereabouts.__struct_fields__)
    if unknown:
        name = min(unknown)
        known = list(Whereabouts.__struct_fields__)
        raise SettingsError(f"target: unknown key {name!r}; {suggest(name, known)}")
    return Situation(
        cwd=given.cwd or cwd,
        home=given.home or home,
        command=given.command if given.tool not in ("", "terminal") else "",
        tainted=given.tainted,
        actor=given.actor,
        where=msgspec.convert(target, Whereabouts),
        incident=msgspec.convert(given.incident, IncidentFacts),
    )


def moment_of(given: Given, now: datetime) -> datetime:
    if not given.now:
        return now
    try:
        when = datetime.fromisoformat(given.now)
    except ValueError as error:
        raise SettingsError(f"now: {given.now!r} is not a time like 2026-03-02T07:30") from error
    return when if when.tzinfo else when.replace(tzinfo=now.tzinfo)
