"""A full, read-only or missing home directory never silences the watch."""

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from watch_process import Shop, WatchProcess, notified, titles

from hermes.cli import exit_codes
from hermes.cli.main import main
from hermes.core.events.incidents import AlertRaised, IncidentClosed, IncidentOpened
from hermes.core.events.operations import (
    HealthMissed,
    JournalResumed,
    NotificationSent,
    WatchStarted,
)
from hermes.memory.journal.verification import verify
from hermes.sre.probes.native import HOME_DISK_PROBE
from notice_server import NoticeServer, door
from small_disk import fill, read_only, small_disk

INTERRUPTED = "CANNOT WRITE ITS JOURNAL"
RESUMED = "WRITES ITS JOURNAL AGAIN"


@pytest.fixture
def shop() -> Iterator[Shop]:
    opened = Shop()
    yield opened
    opened.stop()


@pytest.fixture
def webhook() -> Iterator[NoticeServer]:
    with door() as opened:
        yield opened


@pytest.fixture
def watch(tmp_path: Path, shop: Shop, webhook: NoticeServer) -> Iterator[WatchProcess]:
    """With its home and all temporary files on one small disk."""
    with small_disk(tmp_path / "disk", size="16m") as disk:
        process = WatchProcess(tmp_path, disk / "home", temporary=disk)
        process.set_up(shop, webhook)
        yield process


def hermes_health(watch: WatchProcess) -> tuple[int, dict[str, Any]]:
    """As a process, whose temporary files are on the disk of the home."""
    command = [sys.executable, "-m", "hermes.cli", "health", "--json"]
    done = subprocess.run(command, env=watch.env, capture_output=True, text=True, check=False)
    return done.returncode, json.loads(done.stdout)


def complete(watch: WatchProcess) -> None:
    """Nothing lost, nothing twice, and the audit log verifies."""
    assert verify(watch.home / "journal.db").problems == ()
    records = watch.records()
    assert [each.seq for each in records] == list(range(1, len(records) + 1))
    sent = Counter(
        (each.event.notice, each.event.sink)
        for each in records
        if isinstance(each.event, NotificationSent)
    )
    assert set(sent.values()) <= {1}
    nothing_else: dict[str, str | None] = dict.fromkeys(os.environ)
    with CliRunner().isolation(env={**nothing_else, **watch.env}) as (output, *_):
        code = main(["audit", "verify"])
        sys.stdout.flush()
        assert code == 0, output.getvalue().decode()


def alerts(watch: WatchProcess) -> list[bool]:
    """Of the shop, in order: whether it was the end of one."""
    found = (each.event for each in watch.records())
    return [
        each.resolved for each in found if isinstance(each, AlertRaised) and each.check == "shop"
    ]


def test_a_disk_that_fills_up_while_the_watch_runs_hides_no_outage(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer
) -> None:
    with watch.running():
        ballast = fill(watch.home.parent)
        shop.stop()
        watch.until(lambda: notified(webhook, "INCIDENT DECLARED"))
        watch.until(lambda: notified(webhook, INTERRUPTED))
        watch.until(lambda: notified(webhook, "INCIDENT ESCALATED"))
        assert "no space left" in watch.errors
        assert "continues from memory" in watch.errors
        code, health = hermes_health(watch)
        assert code == 1
        assert set(health["failing"]) == {"shop", "disk", "journal"}
        ballast.unlink()
        watch.until(lambda: notified(webhook, RESUMED))
        assert watch.errors.count("the journal cannot be written") == 1
        assert "can be written again" in watch.errors
    assert alerts(watch) == [False]
    assert [t for t in titles(webhook) if "JOURNAL" in t] == [
        t for t in titles(webhook) if INTERRUPTED in t or RESUMED in t
    ]
    complete(watch)


def test_the_reserve_lets_a_full_disk_be_recorded_at_once(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer
) -> None:
    watch.set_up(shop, webhook, reserve_mib=16)
    reserve = watch.home / "reserve"
    with watch.running():
        watch.until(lambda: reserve.exists() and reserve.stat().st_size == 2 * 1024 * 1024)
        ballast = fill(watch.home.parent)
        shop.stop()
        watch.until(lambda: notified(webhook, "INCIDENT ESCALATED"))
        watch.until(lambda: notified(webhook, "its reserve is in use"))
        assert not notified(webhook, INTERRUPTED)
        ballast.unlink()
        watch.until(lambda: notified(webhook, "HAS SPACE AGAIN"))
        assert reserve.stat().st_size == 2 * 1024 * 1024
    complete(watch)


def test_a_full_home_is_an_incident_although_no_probe_of_it_is_declared(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer
) -> None:
    watch.set_up(shop, webhook, reserve_mib=16, home_probe=False)
    reserve = watch.home / "reserve"
    with watch.running():
        watch.until(lambda: reserve.exists() and reserve.stat().st_size == 2 * 1024 * 1024)
        ballast = fill(watch.home.parent)
        watch.until(lambda: notified(webhook, "INCIDENT ESCALATED"))
        assert not notified(webhook, INTERRUPTED)
        recorded = [each.event for each in watch.records()]  # on the reserve: the disk is full
        raised = next(each for each in recorded if isinstance(each, AlertRaised))
        assert raised.check == HOME_DISK_PROBE
        assert f"percent of {watch.home.parent} are in use" in f"{raised.title} {raised.text}"
        assert any(isinstance(each, IncidentOpened) for each in recorded)
        closed = next(each for each in recorded if isinstance(each, IncidentClosed))
        assert closed.outcome == "escalated"
        ballast.unlink()
        watch.until(lambda: notified(webhook, "RESOLVED") or notified(webhook, "RECOVERED"))
    complete(watch)


def remove_folder(folder: Path) -> None:
    """The watch may write to it meanwhile."""
    for _ in range(20):
        with suppress(OSError):
            return shutil.rmtree(folder)
    raise AssertionError(f"{folder} could not be removed")


def test_a_home_that_is_removed_and_a_home_that_is_read_only_hide_no_outage(
    tmp_path: Path, shop: Shop, webhook: NoticeServer
) -> None:
    watch = WatchProcess(tmp_path, tmp_path / "home")
    watch.set_up(shop, webhook)
    with watch.running():
        remove_folder(watch.home)
        watch.until(lambda: notified(webhook, RESUMED))
        shop.stop()
        watch.until(lambda: notified(webhook, "INCIDENT DECLARED"))
        watch.until(lambda: notified(webhook, "INCIDENT ESCALATED"))
        with read_only(watch.home):
            watch.until(lambda: titles(webhook)[-1].endswith("JOURNAL"))
            shop.start()
            watch.until(lambda: watch.errors.count("cannot be written") == 2)
        watch.until(lambda: sum(RESUMED in each for each in titles(webhook)) == 2)
        watch.until(lambda: len(alerts(watch)) == 2)
    assert alerts(watch) == [False, True]
    complete(watch)


def test_a_watch_that_starts_on_a_full_disk_says_so_and_watches(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer
) -> None:
    with watch.running():
        watch.until(lambda: notified_start(watch))
    ballast = fill(watch.home.parent)
    shop.stop()
    with watch.running():
        watch.until(lambda: notified(webhook, "INCIDENT ESCALATED"))
        watch.until(lambda: notified(webhook, INTERRUPTED))
        assert "no space left" in watch.errors
        ballast.unlink()
        watch.until(lambda: notified(webhook, RESUMED))
        watch.until(lambda: watch.output.count("on call") == 2)
    starts = [each for each in watch.records() if isinstance(each.event, WatchStarted)]
    assert len(starts) == 3
    assert alerts(watch) == [False]
    assert sum("INCIDENT DECLARED" in each for each in titles(webhook)) == 1
    complete(watch)


def notified_start(watch: WatchProcess) -> bool:
    return any(isinstance(each.event, WatchStarted) for each in watch.records())


def test_a_watch_that_starts_on_a_read_only_home_says_so_and_watches(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer
) -> None:
    shop.stop()
    with read_only(watch.home), watch.running(ends_with=exit_codes.STORE):
        watch.until(lambda: notified(webhook, "INCIDENT DECLARED"))
        watch.until(lambda: notified(webhook, INTERRUPTED))
        assert "Read-only file system" in watch.errors
        assert "Make" in watch.errors
    assert "events in memory that could not be recorded" in watch.errors


def test_a_watch_killed_in_memory_loses_only_what_was_in_memory_and_the_next_one_says_so(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer
) -> None:
    config = watch.home / "config.yaml"
    config.write_text(config.read_text() + "  health:\n    every: 1\n")
    with watch.running():
        watch.until(lambda: any(e.event.kind == "health.checked" for e in watch.records()))
        ballast = fill(watch.home.parent)
        shop.stop()
        watch.until(lambda: notified(webhook, INTERRUPTED))
        watch.until(lambda: notified(webhook, "INCIDENT DECLARED"))
        watch.until(lambda: "cannot be written" in watch.errors)
        watch.kill()
    ballast.unlink()
    with watch.running():
        watch.until(lambda: any(e.event.kind == "incident.closed" for e in watch.records()))
    records = watch.records()
    started = [each.event for each in records if isinstance(each.event, WatchStarted)][-1]
    assert isinstance(started, WatchStarted)
    assert started.quiet is not None
    assert started.quiet > 0
    missed = [each.event for each in records if isinstance(each.event, HealthMissed)]
    assert any("could not write its journal" in each.why for each in missed)
    assert not any(isinstance(each.event, JournalResumed) for each in records)
    assert verify(watch.home / "journal.db").problems == ()


@pytest.mark.parametrize("delay_s", [0.0, 0.5, 1.0])
def test_a_kill_while_the_journal_resumes_leaves_it_whole_and_tells_nothing_twice(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer, delay_s: float
) -> None:
    with watch.running():
        ballast = fill(watch.home.parent)
        shop.stop()
        watch.until(lambda: notified(webhook, "INCIDENT DECLARED"))
        watch.until(lambda: "cannot be written" in watch.errors)
        ballast.unlink()
        time.sleep(delay_s)
        watch.kill()
    with watch.running():
        watch.until(lambda: any(e.event.kind == "incident.closed" for e in watch.records()))
    assert alerts(watch) == [False]
    complete(watch)


def test_a_kill_while_the_reserve_is_in_use_loses_nothing(
    watch: WatchProcess, shop: Shop, webhook: NoticeServer
) -> None:
    watch.set_up(shop, webhook, reserve_mib=16)
    with watch.running():
        watch.until((watch.home / "reserve").exists)
        ballast = fill(watch.home.parent)
        shop.stop()
        watch.until(lambda: notified(webhook, "INCIDENT ESCALATED"))
        watch.until(lambda: notified(webhook, "its reserve is in use"))
        watch.kill()
        before = len(webhook.bodies)
    with watch.running():  # still on a full disk: what is left of the reserve lets it start
        watch.until(lambda: watch.output.count("on call") == 1)
        ballast.unlink()
        watch.until(lambda: notified(webhook, "HAS SPACE AGAIN"))
    assert alerts(watch) == [False]
    again = titles(webhook)[before:]
    assert not any("INCIDENT DECLARED" in each for each in again)
    complete(watch)
