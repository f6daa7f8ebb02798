"""`hermes status`: what runs, what is open, the configuration, and what today has cost."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import cast

import click

from hermes import __version__
from hermes.app.incidents.views import APPROVAL_LOOKBACK
from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import print_fields, print_json
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.errors import HermesError
from hermes.core.events.jobs import SCHEDULE_RUN, JobPaused, JobResumed
from hermes.core.events.operations import HOOKS_FOLDER
from hermes.core.events.runs import ModelAnswered
from hermes.core.incident import WATCH_RUN, Incident
from hermes.core.messages import Usage
from hermes.memory.store import JournalStore, display_location, store_exists
from hermes.models.catalog import resolve_reference
from hermes.plumbing.files import is_locked
from hermes.policy.approvals.history import read_approval_history
from hermes.settings.load import LoadedSettings
from hermes.sre.reports.report_data import LISTING_KINDS, list_incidents

RHYTHMS = ("health", "audit", "briefing", "review")
LABELS = {
    "place": "environment",
    "open_incidents": "incidents",
    "waiting_approvals": "approvals",
    "latest": "latest conversation",
}


@cli_command("hermes status --json | jq .model")
def status(ctx: click.Context, as_json: bool) -> None:
    """Show what runs, what is open, home, model, environment, and what today has cost."""
    loaded = load_settings(ctx)
    settings = loaded.settings
    facts: dict[str, object] = {
        "watch": _process_state(loaded, WATCH_RUN, "start one: hermes watch"),
        "schedule": _process_state(loaded, SCHEDULE_RUN, "start one: hermes up"),
        "open_incidents": [],
        "waiting_approvals": 0,
        "version": __version__,
        "home": str(loaded.home),
        "config": "config.yaml" if (loaded.home / "config.yaml").exists() else "defaults only",
        "model": settings.model.default,
        "key": _key_state(loaded),
        "place": settings.terminal.backend,
        "toolsets": settings.tools.toolsets,
        "journal": None,
        "conversations": 0,
        "latest": None,
        "today_tokens": 0,
        "today_usd": 0.0,
    } | _journal_summary(loaded)
    if channels := _channel_summary(loaded):
        facts["channels"] = channels
    if hooks := _hook_summary(loaded):
        facts["hooks"] = hooks
    if as_json:
        print_json(facts)
    else:
        shown = {LABELS.get(name, name.replace("_", " ")): value for name, value in facts.items()}
        shown["incidents"] = _open_incidents_text(cast("list[str]", facts["open_incidents"]))
        shown["approvals"] = _approvals_text(cast("int", facts["waiting_approvals"]))
        if channels:
            shown["channels"] = "; ".join(f"{name}: {words}" for name, words in channels.items())
        if paused := cast("dict[str, str]", facts.get("paused", {})):
            shown["paused"] = "; ".join(f"{job}: {words}" for job, words in paused.items())
        if hooks:
            shown["hooks"] = "; ".join(f"{name}: {words}" for name, words in hooks.items())
        print_fields(shown)


def _process_state(loaded: LoadedSettings, run: str, advice: str) -> str:
    """Return whether a process of this machine does this work for the home."""
    running = is_locked(loaded.home / "locks" / f"{run}.lock")
    return "running" if running else f"not running; {advice}"


def gravest_first(incidents: Sequence[Incident]) -> list[Incident]:
    """Of one severity the newest first."""
    return sorted(reversed(incidents), key=lambda each: each.severity)


def _open_incidents_text(titles: list[str]) -> str:
    if not titles:
        return "none open"
    return f"{len(titles)} open: {clip(clean(titles[0]), 60)} (hermes incident list --open)"


def _approvals_text(waiting: int) -> str:
    return f"{waiting} waiting for an answer (hermes approvals list)" if waiting else "none waiting"


def _incident_title(incident: Incident) -> str:
    return f"{incident.severity} {incident.details.title}"


def _key_state(loaded: LoadedSettings) -> str:
    try:
        variable = resolve_reference("", loaded.settings.model).provider.key_variable
    except HermesError as error:
        return f"unknown: {error}"
    if not variable:
        return "none needed"
    return f"{variable} is set" if loaded.secrets.get(variable) else f"{variable} is not set"


def _channel_summary(loaded: LoadedSettings) -> dict[str, str]:
    """Chats that are configured or have failed, and everything that waits for a process."""
    from hermes.cli.admin.channels import channel_states, status_text

    found = {}
    for each in channel_states(loaded):
        words = [status_text(each)]
        if each.status in ("incomplete", "failed", "idle") and each.kind == "chat":
            words.append(each.detail)
        if each.waiting:
            words.append(f"{each.waiting} messages wait: start `hermes watch`")
        if each.waiting or (each.kind == "chat" and each.status != "not configured"):
            found[each.name] = ", ".join(filter(None, words))
    return found


def _hook_summary(loaded: LoadedSettings) -> dict[str, str]:
    """Return which hooks run, and why one does not; nothing is loaded where there is none."""
    if not (loaded.home / HOOKS_FOLDER).is_dir():
        return {}
    from hermes.cli.monitoring.hooks import hook_states, state_text

    return {each.hook.name: state_text(each) for each in hook_states(loaded)}


async def _paused_rhythms(journal: JournalStore) -> dict[str, str]:
    """The built-in jobs that a person paused: what they watch for is not noticed."""
    paused: dict[str, str] = {}
    async for recorded in journal.read(kinds=("job.paused", "job.resumed")):
        match event := recorded.event:
            case JobPaused() if event.job in RHYTHMS:
                since = f"since {format_time(event.at)}"
                words = (since, f"by {event.by}" if event.by else "", event.reason)
                paused[event.job] = ", ".join(filter(None, words))
            case JobResumed():
                paused.pop(event.job, None)
            case _:
                pass
    return paused


def _journal_summary(loaded: LoadedSettings) -> dict[str, object]:
    from hermes.cli.context import MAX_LISTED_RUNS, query_journal

    location = loaded.store
    if not store_exists(location):
        return {}

    async def query(journal: JournalStore) -> dict[str, object]:
        runs = await journal.runs(limit=MAX_LISTED_RUNS)
        today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        spent = Usage()
        async for recorded in journal.read(kinds=["model.answered"], since=today):
            if isinstance(recorded.event, ModelAnswered):
                spent += recorded.event.usage
        paused = await _paused_rhythms(journal)
        approvals = await read_approval_history(
            journal, since=datetime.now(UTC) - APPROVAL_LOOKBACK
        )
        return {
            "open_incidents": [
                _incident_title(each)
                for each in gravest_first(await list_incidents(journal, kinds=LISTING_KINDS))
                if each.unresolved
            ],
            "waiting_approvals": sum(1 for _ in approvals.open_questions(datetime.now(UTC))),
            "conversations": len(runs),
            "latest": runs[0].id if runs else None,
            "today_tokens": spent.tokens,
            "today_usd": round(spent.cost_usd, 4),
        } | ({"paused": paused} if paused else {})

    size = f" ({location.stat().st_size:,} bytes)" if isinstance(location, Path) else ""
    return {"journal": display_location(location) + size} | query_journal(loaded, query)
