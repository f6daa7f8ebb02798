"""A watch that is on call is started again whatever fails in it."""

from collections.abc import Callable, Iterator

import anyio
import pytest

from hermes.cli.monitoring.watch import FINAL_ERRORS, keep_watching
from hermes.core.errors import SettingsError, StoreCorrupt

pytestmark = [pytest.mark.anyio, pytest.mark.unit]


class Attempts:
    """Each start ends with the next of these: an error, or whether it must restart."""

    def __init__(self, *ends: Exception | bool, on_call: bool = True) -> None:
        self._ends: Iterator[Exception | bool] = iter(ends)
        self._on_call = on_call
        self.starts = 0

    async def __call__(self, on_call: anyio.Event) -> bool:
        self.starts += 1
        if self._on_call:
            on_call.set()
        end = next(self._ends)
        if isinstance(end, Exception):
            raise end
        return end


async def test_a_bug_is_reported_and_the_watch_starts_again(
    capsys: pytest.CaptureFixture[str],
) -> None:
    bug = ExceptionGroup("", [ExceptionGroup("", [ValueError("unknown field `profile`")])])
    watch = Attempts(bug, BrokenPipeError(32, "Broken pipe"), True, OSError(28, "no space"), False)
    await keep_watching(watch, first_pause_s=0.0)
    assert watch.starts == 5
    said = capsys.readouterr().err
    assert "the watch failed: ValueError: unknown field `profile`; it starts again" in said
    assert "the journal was replaced" in said


@pytest.mark.parametrize(
    "make",
    [
        lambda: Attempts(SettingsError("the port is taken"), on_call=False),
        lambda: Attempts(StoreCorrupt("the journal is damaged")),
        lambda: Attempts(ExceptionGroup("", [StoreCorrupt("the journal is damaged")])),
    ],
)
async def test_what_only_a_person_can_correct_ends_it(make: Callable[[], Attempts]) -> None:
    watch = make()
    with pytest.raises((SettingsError, StoreCorrupt, ExceptionGroup)):
        await keep_watching(watch, first_pause_s=0.0)
    assert watch.starts == 1


async def test_output_that_nobody_reads_ends_a_watch_that_prints_events() -> None:
    watch = Attempts(BrokenPipeError(32, "Broken pipe"))
    with pytest.raises(BrokenPipeError):
        await keep_watching(watch, (*FINAL_ERRORS, BrokenPipeError), first_pause_s=0.0)
    assert watch.starts == 1


async def test_what_fails_while_it_ends_is_raised() -> None:
    """Otherwise a watch on a read-only home would start again when it is told to end."""
    watch, ending = Attempts(OSError(30, "Read-only file system")), anyio.Event()
    ending.set()
    with pytest.raises(OSError, match="Read-only"):
        await keep_watching(watch, ending=ending, first_pause_s=0.0)
    assert watch.starts == 1
