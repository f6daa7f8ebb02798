"""Logs are read from where the last look ended, however large and whatever becomes of them."""

from pathlib import Path

import anyio
import pytest
from probe_house import this_host

from hermes.sre.probes.evaluation import ProbeState, ProbeVerdict, judge_probe
from hermes.sre.probes.kinds.logs import log_command
from hermes.sre.probes.kinds.native_logs import probe_answers, probe_log
from hermes.sre.probes.log_silence import judge_silence
from hermes.sre.probes.probe import Probe, shell_command_of
from hermes.sre.probes.probe_runner import ProbeResult, run_probes
from hermes.sre.probes.scheduled_probe import ScheduledProbe
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


class AccessLog:
    """Requests in a log, looked at by one probe that goes on where it ended."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "access.log"
        self.path.touch()
        self.probe = Probe(name="it", kind="answers", what=str(self.path))
        self.keep = ""

    def answer(self, page: str, status: int, times: int = 1) -> None:
        line = f'10.0.0.1 - - [18/Nov/2026:10:00:00 +0000] "GET {page} HTTP/1.1" {status} 12\n'
        with self.path.open("a") as file:
            file.write(line * times)

    def look(self, *, after_s: int = 0) -> tuple[int | None, str]:
        """`after_s`: as if the last look were so much longer ago."""
        self.keep = " ".join(_earlier(each, after_s) for each in self.keep.split(" "))
        code, text, _, self.keep = probe_answers(self.probe, self.keep)
        return code, text


def _earlier(kept: str, seconds: int) -> str:
    """What was kept, as if it had been kept earlier."""
    page, *numbers = kept.split("|")
    if len(numbers) != 4:
        return kept
    status, count, *times = numbers
    return "|".join((page, status, count, *(str(int(at) - seconds) for at in times)))


def test_a_page_that_keeps_failing_is_seen_among_others_that_work(tmp_path: Path) -> None:
    log = AccessLog(tmp_path)
    assert log.look()[0] == 0
    log.answer("/invoice", 500, 2)
    log.answer("/", 200, 50)
    assert log.look()[0] == 0  # a request that somebody repeats
    log.answer("/invoice", 500)
    log.answer("/", 200, 50)
    code, text = log.look(after_s=15)
    assert (code, text.partition("; ")[0]) == (1, "the last 3 answers for /invoice were bad: 500")


def test_a_page_is_fine_only_after_a_good_answer(tmp_path: Path) -> None:
    log = AccessLog(tmp_path)
    log.look()
    log.answer("/invoice", 500)
    log.look()
    log.answer("/invoice", 500, 2)
    assert log.look(after_s=15)[0] == 1
    log.answer("/", 200, 500)
    assert log.look(after_s=300)[0] == 1  # others were asked for, not this page
    log.answer("/invoice", 200)
    assert log.look()[0] == 0


def test_a_page_that_nobody_requests_any_more_is_said_to_be_unknown(tmp_path: Path) -> None:
    log = AccessLog(tmp_path)
    log.look()
    log.answer("/invoice", 500)
    log.look()
    log.answer("/invoice", 500, 2)
    assert log.look(after_s=15)[0] == 1
    code, text = log.look(after_s=2000)
    assert code == 0
    assert "nobody requested /invoice: whether it works is not known" in text


def test_answers_are_read_on_after_a_rotation(tmp_path: Path) -> None:
    log = AccessLog(tmp_path)
    log.answer("/", 200, 900)
    log.look()
    log.answer("/invoice", 500)
    log.look()
    log.path.rename(tmp_path / "access.log.1")
    log.answer("/invoice", 500, 2)
    assert log.look(after_s=15)[0] == 1


@pytest.mark.parametrize(("seen", "judged"), [("unknown", "unknown"), ("fine", "fine")])
def test_a_log_proves_no_recovery_where_no_check_of_its_service_could_be_made(
    seen: ProbeState, judged: ProbeState
) -> None:
    log = ScheduledProbe(Probe(name="log", kind="log", what="/var/log/a", service="shop"), 0.0)
    log.failed_at, log.written_since, log.judged_at = 10.0, 15.0, 20.0
    port = ScheduledProbe(Probe(name="port-80", kind="port", what="80", service="shop"), 0.0)
    port.verdict, port.judged_at = ProbeVerdict(probe="port-80", state=seen), 20.0
    fine = ProbeVerdict(probe="log", state="fine", detail="0 new lines")
    assert judge_silence(log, fine, [log, port]).state == judged


@pytest.mark.parametrize(("agent", "code"), [("hermes-probe", 0), ("curl/8.1", 1)])
async def test_our_own_requests_are_no_users_who_get_errors(
    tmp_path: Path, agent: str, code: int
) -> None:
    log = tmp_path / "access.log"
    log.write_text(f'127.0.0.1 - - [x] "GET /cart HTTP/1.1" 500 12 "-" "{agent}"\n' * 4)
    probe = Probe(name="it", kind="answers", what=str(log))
    assert probe_answers(probe, "")[0] == code
    async with this_host(tmp_path) as here:
        result = await here.run(shell_command_of(probe), timeout=60)
    assert result.exit_code == code, result.output


@pytest.mark.parametrize(
    "line",
    [
        "20261119T101112|E|pay|card 4411 refused by the terminal",
        "11:02:03 [E] queue is lost",
        "Nov 19 billing ERR code=17",
        "SEVERE: no connection to the ledger",
        'Exception in thread "main" java.lang.NullPointerException',
        "thread 'worker' panicked at src/main.rs:7",
        "ts=1 level=err msg=broken",
    ],
)
@pytest.mark.parametrize("native", [True, False])
async def test_an_error_in_a_log_of_ones_own_form_counts(
    line: str, native: bool, tmp_path: Path
) -> None:
    assert await counted(line, native, tmp_path) == "failing"


@pytest.mark.parametrize(
    "line", ["done, errors=0, 17 rows", "backup ended: 0 errors", "12|I|pay|checked: no errors"]
)
@pytest.mark.parametrize("native", [True, False])
async def test_a_count_of_no_errors_does_not_count(line: str, native: bool, tmp_path: Path) -> None:
    assert await counted(line, native, tmp_path) == "fine"


async def counted(line: str, native: bool, folder: Path) -> str:
    """The state after one such line, by the probe without a shell or by its command."""
    log = folder / "app.log"
    log.write_text("begin\n")
    probe = Probe(name="it", kind="log", what=str(log), limit=1)
    *_, before = probe_log(probe, "")
    with log.open("a") as file:
        file.write(f"{line}\n")
    if native:
        return "failing" if probe_log(probe, before)[0] else "fine"
    async with this_host(folder) as here:
        code = (await here.run(log_command(probe, before), timeout=20)).exit_code
    return "failing" if code else "fine"
