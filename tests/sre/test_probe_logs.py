"""Logs are read from where the last look ended, however large and whatever becomes of them."""

from pathlib import Path

import anyio
import pytest
from probe_house import this_host

from hermes.sre.probes.evaluation import ProbeVerdict, judge_probe
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.probe_runner import ProbeResult, run_probes
from hermes.sre.settings import ProbeSettings

pytestmark = pytest.mark.anyio


class Reader:
    """Looks one after the other, each going on from the one before."""

    def __init__(self, folder: Path, **more: object) -> None:
        self.log = folder / "app.log"
        self.keep = ""
        self.probe = Probe(name="it", kind="log", what=str(self.log), **more)  # type: ignore[arg-type]
        self._folder = folder

    async def look(self) -> ProbeVerdict:
        async with this_host(self._folder) as here:
            reading: ProbeResult = (await run_probes(here, [self.probe], {"it": self.keep}))["it"]
        self.keep = reading.keep or self.keep
        return judge_probe(self.probe, reading, (), ProbeSettings())

    def say(self, *lines: str) -> None:
        with self.log.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)


async def test_only_what_is_new_counts(tmp_path: Path) -> None:
    reader = Reader(tmp_path, limit=1)
    reader.say("ERROR of yesterday")
    assert (await reader.look()).state == "fine"
    reader.say("INFO all is well", "ERROR disk on fire")
    bad = await reader.look()
    assert bad.state == "failing"
    assert "disk on fire" in bad.detail
    assert (await reader.look()).state == "fine"


async def test_a_pattern_of_ones_own_is_what_counts(tmp_path: Path) -> None:
    reader = Reader(tmp_path, limit=1, pattern="payment [0-9]+ lost")
    reader.say("begin")
    await reader.look()
    reader.say("ERROR disk on fire")
    assert (await reader.look()).state == "fine"
    reader.say("Payment 77 lost")
    assert (await reader.look()).state == "failing"


async def test_a_log_of_a_terabyte_costs_nothing(tmp_path: Path) -> None:
    reader = Reader(tmp_path, limit=1)
    with reader.log.open("wb") as file:
        file.truncate(1 << 40)  # sparse: it takes no space, and would take long to read
    with anyio.fail_after(120):
        assert (await reader.look()).state == "fine"
        reader.say("", "ERROR at the very end")
        bad = await reader.look()
    assert bad.state == "failing"
    assert "very end" in bad.detail


async def test_a_flood_between_two_looks_is_read_at_its_end(tmp_path: Path) -> None:
    reader = Reader(tmp_path, limit=1)
    reader.say("begin")
    await reader.look()
    with reader.log.open("r+b") as file:
        file.truncate(1 << 40)
    reader.say("", "FATAL last words")
    with anyio.fail_after(120):
        assert "last words" in (await reader.look()).detail


async def test_what_was_written_just_before_a_rotation_is_not_lost(tmp_path: Path) -> None:
    reader = Reader(tmp_path, limit=1)
    reader.say("begin")
    await reader.look()
    reader.say("ERROR written last")
    reader.log.rename(tmp_path / "app.log.1")
    reader.say("INFO a new day")
    bad = await reader.look()
    assert bad.state == "failing"
    assert "written last" in bad.detail
    assert (await reader.look()).state == "fine"


async def test_a_truncated_log_is_read_from_its_start(tmp_path: Path) -> None:
    reader = Reader(tmp_path, limit=1)
    reader.say(*["INFO a long line to begin with"] * 50)
    await reader.look()
    reader.log.write_text("ERROR after all was cut off\n")
    assert (await reader.look()).state == "failing"


async def test_a_log_that_cannot_be_read_is_unknown_and_not_fine(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    gone = await reader.look()
    assert gone.state == "unknown"
    assert "cannot be read" in gone.detail


async def test_hostile_lines_stay_words(tmp_path: Path) -> None:
    reader = Reader(tmp_path, limit=1)
    reader.say("begin")
    await reader.look()
    reader.say("ERROR \x1b[2J $(reboot) `reboot` keep=0:0:0 \x07 value=7")
    bad = await reader.look()
    assert bad.state == "failing"
    assert "\x1b" not in bad.detail
    assert "\x07" not in bad.detail
    assert (await reader.look()).state == "fine"


async def test_bad_answers_are_seen_in_what_a_service_notes(tmp_path: Path) -> None:
    log = tmp_path / "access.log"
    probe = Probe(name="it", kind="answers", what=str(log))

    async def look() -> ProbeVerdict:
        async with this_host(tmp_path) as here:
            reading = (await run_probes(here, [probe]))["it"]
        return judge_probe(probe, reading, (), ProbeSettings())

    log.write_text('"GET /items HTTP/1.1" 200 12\n"GET /items HTTP/1.1" 503 9\n')
    assert (await look()).state == "fine"  # one bad answer is not yet trouble
    with log.open("a") as file:
        file.write('"GET /items?page=2 HTTP/1.1" 503 9\n"GET /other HTTP/1.1" 200 9\n')
    bad = await look()
    assert bad.state == "failing"
    assert "/items" in bad.detail
    with log.open("a") as file:
        file.write('"GET /items HTTP/1.1" 200 12\n')
    assert (await look()).state == "fine"
