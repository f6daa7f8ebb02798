"""`hermes sessions carry-on`: runs that nobody watches go on after a crash, also by themselves."""

import subprocess
import sys
from collections.abc import Mapping, Sequence

import anyio
import click

from hermes.cli.context import load_settings
from hermes.cli.lazy import CommandWithExamples
from hermes.cli.output import echo, json_option, print_json
from hermes.core.errors import HermesError
from hermes.memory.store import open_journal, store_exists
from hermes.settings.load import LoadedSettings

UNATTENDED_LOG_NAME = "unattended.log"


@click.command(
    "carry-on",
    cls=CommandWithExamples,
    examples="hermes sessions carry-on     finish what a crash cut off (begun with --unattended)",
)
@json_option
@click.pass_context
def carry_on(ctx: click.Context, as_json: bool) -> None:
    """Finish unattended runs that were cut off.

    Nobody sits here: what a rule wants asked about waits for `hermes approvals` where the rule or
    policy.wait says so, and is refused otherwise. A run that another living process works on is
    left alone, and no command that may have changed something runs twice.
    """
    loaded = load_settings(ctx)
    carried = (
        anyio.run(_resume_unattended_runs, loaded, as_json) if store_exists(loaded.store) else []
    )
    if as_json:
        print_json(carried)
    elif not carried:
        echo("nothing was cut off")


async def _resume_unattended_runs(loaded: LoadedSettings, quiet: bool) -> list[dict[str, str]]:
    from hermes.app.resume_unattended import resume_unattended_runs

    carried = []
    async for one in resume_unattended_runs(loaded):
        carried.append({"run": one.run, "outcome": one.outcome})
        if not quiet:
            echo(f"{one.run}: {one.outcome}")
    return carried


def resume_unattended_in_background(loaded: LoadedSettings, waiting: Sequence[str]) -> list[str]:
    """Leave what was cut off to a process of its own; what a person should know of it."""
    if not waiting:
        return []
    with (loaded.home / UNATTENDED_LOG_NAME).open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "hermes.cli", "sessions", "carry-on"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    return [
        f"cut off before, carried on in the background: {', '.join(waiting)} ({UNATTENDED_LOG_NAME})"
    ]


REVIEW_LOG_NAME = "review.log"
REVIEW_CHECK_TIMEOUT_S = 3.0
"""Seconds that the look whether one is due may take: nobody waits longer for a prompt."""


def start_review_if_due(loaded: LoadedSettings, overrides: Mapping[str, str]) -> bool:
    """Whether one was begun. Trouble here is nobody's: the next conversation ends as well."""
    if not loaded.settings.skills.review_by_itself or not store_exists(loaded.store):
        return False
    try:
        if not anyio.run(_is_review_due, loaded):
            return False
        _start_review(loaded, overrides)
    except (HermesError, OSError):
        return False
    return True


async def _is_review_due(loaded: LoadedSettings) -> bool:
    from hermes.app.skills.review_due import find_due_review

    with anyio.move_on_after(REVIEW_CHECK_TIMEOUT_S):
        async with open_journal(loaded.store, timeout_s=REVIEW_CHECK_TIMEOUT_S) as journal:
            return await find_due_review(journal, loaded) is not None
    return False


def _start_review(loaded: LoadedSettings, overrides: Mapping[str, str]) -> None:
    said = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    with (loaded.home / REVIEW_LOG_NAME).open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "hermes.cli", *said, "skills", "review", "--background"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
