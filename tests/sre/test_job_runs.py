"""Jobs of cron that ran regularly and do not run any more are a notice of P3."""

import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from learned_world import DAY, HOUR, MINUTE, START

from hermes.sre.probes.discovery import propose_probes
from hermes.sre.probes.host_scan import HostScan
from hermes.sre.probes.job_runs import JobRuns
from hermes.sre.probes.learned.learner import LearnedChecks
from hermes.sre.probes.learned.state import LearnedVerdict, Observation
from hermes.sre.probes.probe import Probe

PROGRAM = "/opt/shop/export.sh"


def job(log: str = "") -> Probe:
    labels = {"by": "", "log": log} if log else {"by": ""}
    return Probe(name="cron-export", kind="cron", what=PROGRAM, service="export.sh", labels=labels)


def cron_line(at: float, command: str, *, old: bool = False) -> str:
    moment = datetime.fromtimestamp(at, UTC)
    local = moment.astimezone()
    shown = f"{local:%b} {local.day:2} {local:%H:%M:%S}" if old else moment.isoformat()
    return f"{shown} host CRON[77]: (root) CMD ({command})\n"


def write_at(path: Path, at: float, text: str = "done\n") -> None:
    with path.open("a") as file:
        file.write(text)
    os.utime(path, (at, at))


def observations(runs: JobRuns, at: float, probe: Probe) -> list[Observation]:
    return [
        Observation(subject=found.name, service=found.service, at=at, values={"runs": passed_s})
        for found, passed_s in runs.observe([probe], at)
    ]


class World:
    """A host whose job runs each `period`, observed once a minute."""

    def __init__(self, folder: Path, period: float, *, by_cron: bool, writes_s: float = 0) -> None:
        self._cron, self._own = folder / "cron.log", folder / "export.log"
        self._runs = JobRuns([str(self._cron)])
        self._job = job("" if by_cron else str(self._own))
        self._period, self._by_cron, self._writes_s = period, by_cron, writes_s
        self.checks = LearnedChecks()
        self._cron.touch()

    def play(self, begin: float, end: float, *, works: bool) -> list[tuple[float, LearnedVerdict]]:
        """The verdicts that fail, each with the time since the begin."""
        found, at = list[tuple[float, LearnedVerdict]](), begin
        while at < end:
            at += MINUTE
            since_run = at % self._period
            if works and since_run <= self._writes_s:
                if not self._by_cron:
                    write_at(self._own, at)
                elif since_run == 0:
                    write_at(self._cron, at, cron_line(at, f"{PROGRAM} --all"))
            for seen in observations(self._runs, at, self._job):
                found += [(at - begin, each) for each in self.checks.observe(seen) if each.failing]
        return found


@pytest.mark.parametrize(
    ("period", "by_cron", "writes_s"),
    [(5 * MINUTE, True, 0), (HOUR, False, 0), (HOUR, False, 10 * MINUTE), (DAY, True, 0)],
)
def test_a_job_that_stops_is_reported_after_three_of_its_periods(
    tmp_path: Path, period: float, by_cron: bool, writes_s: float
) -> None:
    world = World(tmp_path, period, by_cron=by_cron, writes_s=writes_s)
    stopped_at = START + 20 * max(period, HOUR)
    assert world.play(START, stopped_at, works=True) == []
    found = world.play(stopped_at, stopped_at + 5 * period, works=False)
    after, first = found[0]
    assert 3 * period <= after <= 3 * period + 5 * MINUTE
    assert (first.check, first.service, first.severity) == (
        "learned-cron-export-runs", "export.sh", "P3",
    )  # fmt: skip
    assert "since its last run; usual is at most" in first.detail
    again = world.play(stopped_at + 5 * period, stopped_at + 8 * period, works=True)
    assert len(again) < 5 * period / MINUTE, "it is over when it runs again"


def test_a_job_at_irregular_times_is_not_judged(tmp_path: Path) -> None:
    cron, checks = tmp_path / "cron.log", LearnedChecks()
    cron.touch()
    runs, at, failing = JobRuns([str(cron)]), START, list[LearnedVerdict]()
    for pause in [2, 3, 2, 2, 240, 2, 3, 2, 600, 2, 3, 2, 2, 2, 3, 2, 2, 2, 2, 2, 1500]:
        for _ in range(pause):
            at += MINUTE
            for seen in observations(runs, at, job()):
                failing += [each for each in checks.observe(seen) if each.failing]
        write_at(cron, at, cron_line(at, PROGRAM))
    assert failing == []


@pytest.mark.parametrize("old", [True, False])
def test_the_last_start_is_read_from_both_formats_and_after_a_rotation(
    tmp_path: Path, old: bool
) -> None:
    cron, now = tmp_path / "syslog", datetime(2026, 1, 1, 0, 30).astimezone().timestamp()
    lines = [(now - HOUR, f"cd / && {PROGRAM}"), (now - MINUTE, f"{PROGRAM}.old; /srv{PROGRAM}")]
    cron.write_text("".join(cron_line(at, command, old=old) for at, command in lines))
    runs = JobRuns([str(cron), str(tmp_path / "none")])
    ((_, passed_s),) = runs.observe([job()], now)
    assert passed_s == HOUR, "the line of the last year, and of no other program"
    cron.write_text(cron_line(now + 60, PROGRAM, old=old))
    ((_, passed_s),) = runs.observe([job()], now + 90)
    assert passed_s == 30.0


def test_a_job_of_which_nothing_is_known_is_not_observed(tmp_path: Path) -> None:
    (tmp_path / "cron.log").write_text(f"garbage CMD ({PROGRAM})\n{cron_line(START, '/bin/other')}")
    runs = JobRuns([str(tmp_path / "cron.log")])
    assert [*runs.observe([job(str(tmp_path / "absent.log"))], START + DAY)] == []


def test_scripts_of_the_administrator_are_jobs_and_those_of_packages_are_not() -> None:
    lines = [
        "/usr/local/bin/backup.sh",
        "/usr/lib/php/sessionclean",
        "/opt/shop/export.sh >> /x.log",
    ]
    scan = HostScan(cron=tuple(("/var/spool/cron/crontabs/root", each) for each in lines))
    found = [each.what for each in propose_probes(scan).probes if each.kind == "cron"]
    assert found == ["/usr/local/bin/backup.sh", "/opt/shop/export.sh"]
