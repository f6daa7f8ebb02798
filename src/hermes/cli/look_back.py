"""Begins a review when a conversation ends and one is due: in a process of its own, in the back."""

import subprocess
import sys
from collections.abc import Mapping

import anyio

from hermes.core.errors import HermesError
from hermes.memory.opening import exists, open_journal
from hermes.settings.load import Loaded

LOG = "review.log"
SOON = 3.0
"""Seconds that the look whether one is due may take: nobody waits longer for a prompt."""


def look_back_later(loaded: Loaded, overrides: Mapping[str, str]) -> bool:
    """Whether one was begun. Trouble here is nobody's: the next conversation ends as well."""
    if not loaded.settings.skills.review_by_itself or not exists(loaded.store):
        return False
    try:
        if not anyio.run(_due, loaded):
            return False
        _begin(loaded, overrides)
    except (HermesError, OSError):
        return False
    return True


async def _due(loaded: Loaded) -> bool:
    from hermes.app.review_due import when_due

    with anyio.move_on_after(SOON):
        async with open_journal(loaded.store, patience=SOON) as journal:
            return await when_due(journal, loaded) is not None
    return False


def _begin(loaded: Loaded, overrides: Mapping[str, str]) -> None:
    said = [word for key, value in overrides.items() for word in ("--set", f"{key}={value}")]
    with (loaded.home / LOG).open("ab") as log:
        subprocess.Popen(
            [sys.executable, "-m", "hermes.cli", *said, "skills", "review", "--background"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
