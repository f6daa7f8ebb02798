"""`hermes sessions carry-on`, and runs and reviews that start in the background."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import click

from hermes.cli.context import load_settings
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json
from hermes.core.errors import HermesError
from hermes.memory.store import open_journal, store_exists
from hermes.settings.load import LoadedSettings

UNATTENDED_LOG_NAME = "unattended.log"


@cli_command("hermes sessions carry-on     finish interrupted --unattended runs")
def carry_on(ctx: click.Context, as_json: bool) -> None:
    """Finish unattended runs that were interrupted.

    Approval requests wait for `hermes approvals` where the rule or policy.wait says so, and are
    refused otherwise. A run of another running process is left alone, and no command that may have
    changed something runs twice.
    """
    loaded = load_settings(ctx)
    resumed = (
        anyio.run(_resume_unattended_runs, loaded, as_json) if store_exists(loaded.store) else []
    )
    if as_json:
        print_json(resumed)
    elif not resumed:
        echo("no run was interrupted")


async def _resume_unattended_runs(loaded: LoadedSettings, quiet: bool) -> list[dict[str, str]]:
    from hermes.app.application import resume_unattended_runs

    resumed = []
    async for each in resume_unattended_runs(loaded):
        resumed.append({"run": each.run, "outcome": each.outcome})
        if not quiet:
            echo(f"{each.run}: {each.outcome}")
    return resumed


def resume_unattended_in_background(loaded: LoadedSettings, waiting: Sequence[str]) -> list[str]:
    """Resume interrupted runs in another process; returns a note for the user."""
    if not waiting:
        return []
    _start_in_background(loaded.home / UNATTENDED_LOG_NAME, ["sessions", "carry-on"])
    runs = ", ".join(waiting)
    return [f"interrupted earlier, resumed in the background: {runs} ({UNATTENDED_LOG_NAME})"]


REVIEW_LOG_NAME = "review.log"
REVIEW_CHECK_TIMEOUT_S = 3.0
"""The check delays the end of a conversation, so it must be short."""


def start_review_if_due(loaded: LoadedSettings, overrides: Mapping[str, str]) -> bool:
    """Start a review if one is due; True when started. Errors are ignored until the next time."""
    if not loaded.settings.skills.review_by_itself or not store_exists(loaded.store):
        return False
    try:
        if not anyio.run(_is_review_due, loaded):
            return False
        options = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
        _start_in_background(
            loaded.home / REVIEW_LOG_NAME, [*options, "skills", "review", "--background"]
        )
    except (HermesError, OSError):
        return False
    return True


async def _is_review_due(loaded: LoadedSettings) -> bool:
    from hermes.app.skills.review_due import find_due_review

    with anyio.move_on_after(REVIEW_CHECK_TIMEOUT_S):
        async with open_journal(loaded.store, timeout_s=REVIEW_CHECK_TIMEOUT_S) as journal:
            return await find_due_review(journal, loaded) is not None
    return False


def _start_in_background(log_file: Path, words: Sequence[str]) -> None:
    with log_file.open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "hermes.cli", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
