"""Limits with hysteresis, and a filesystem that may have been unmounted on purpose."""

import shutil
import subprocess
from pathlib import Path

import pytest

from hermes.sre.probes.evaluation import (
    INTENDED_QUESTION,
    ProbeState,
    ProbeVerdict,
    headline,
    judge_probe,
    learn_value,
)
from hermes.sre.probes.probe import QUESTION_EXIT_CODE, Probe, ProbeKind, shell_command_of
from hermes.sre.probes.probe_runner import ProbeResult
from hermes.sre.settings import ProbeSettings

LOG_DETAIL = (
    "205.0 lines a minute of /var/log/shop/api.log report errors; 2026-11-17 13:22:40 ERROR /items"
)
LOAD = Probe(name="load", kind="load", limit=4)


class Looks:
    """One probe over time, with an alert that stands from its first bad look to its end."""

    def __init__(self, probe: Probe) -> None:
        self.probe = probe
        self.past: tuple[float, ...] = ()
        self.alerted = False

    def at(self, *values: float) -> list[str]:
        return [self.look(value).state for value in values]

    def look(self, value: float) -> ProbeVerdict:
        code = int(value >= (self.probe.limit or 0))
        reading = ProbeResult(probe=self.probe.name, code=code, text=f"{value:g} wait", value=value)
        verdict = judge_probe(self.probe, reading, self.past, ProbeSettings(), alerted=self.alerted)
        self.past = learn_value(self.past, verdict, self.probe)
        self.alerted = verdict.state == "failing"
        return verdict


@pytest.mark.parametrize(
    ("detail", "title"),
    [
        (
            "0.069339 seconds for status 502 from http://127.0.0.1:80/health; the status is 502",
            "status 502 from http://127.0.0.1:80/health",
        ),
        (LOG_DETAIL, "205.0 lines a minute of /var/log/shop/api.log report errors"),
        ("nothing answers at 127.0.0.1:6379", "nothing answers at 127.0.0.1:6379"),
        (
            "3.1 seconds for status 200 from http://a/; it took longer than 2 s",
            "it took 3.1 s, longer than 2 s, for status 200 from http://a/",
        ),
        (
            "0.021 seconds for status 200 from http://a/; the body lacks: Book; now",
            "the body lacks: Book; now, in the answer with status 200 from http://a/",
        ),
        (
            "0 days are left for 127.0.0.1:443; "
            "the certificate of 127.0.0.1:443 expired 8 days ago: Nov 9 15:10:39 2026 GMT",
            "the certificate of 127.0.0.1:443 expired 8 days ago: Nov 9 15:10:39 2026 GMT",
        ),
        (
            "60 days are left for 127.0.0.1:443; "
            "the certificate of 127.0.0.1:443 is not for shop.example",
            "the certificate of 127.0.0.1:443 is not for shop.example",
        ),
        (
            "5 days are left for a.crt; the certificate of a.crt ends Nov 22 15:10:39 2026 GMT",
            "5 days are left for a.crt",
        ),
        ("x" * 300, "x" * 119 + "…"),
    ],
)
def test_a_title_is_short_and_says_what_fails(detail: str, title: str) -> None:
    assert headline(detail) == title


def test_a_load_just_above_its_limit_is_fine_unless_it_stays_there() -> None:
    looks = Looks(LOAD)
    seen = looks.look(4.01)
    assert (seen.state, seen.value) == ("fine", 4.01)
    assert "just above its limit of 4" in seen.detail
    assert looks.at(3.9, *[4.01] * 19) == ["fine"] * 20
    assert looks.at(4.01) == ["failing"]


def test_a_load_well_above_its_limit_is_bad_until_it_is_well_below() -> None:
    looks = Looks(LOAD)
    assert looks.at(4.5, 3.9, 4.1, 3.7) == ["failing"] * 4
    assert looks.at(3.5, 3.9, 4.1) == ["fine"] * 3


def test_a_value_that_settles_just_below_its_limit_is_over_after_a_while() -> None:
    looks = Looks(Probe(name="disk", kind="disk", limit=90))
    assert looks.at(91) == ["failing"]
    assert looks.at(*[89] * 9) == ["failing"] * 9
    assert looks.at(89) == ["fine"]


@pytest.mark.parametrize("kind", ["disk", "memory", "inodes", "cpu"])
def test_what_fills_up_is_bad_at_its_limit(kind: ProbeKind) -> None:
    looks = Looks(Probe(name="it", kind=kind, limit=90))
    assert looks.at(89.9, 90) == ["fine", "failing"]


def test_a_disk_without_free_space_is_bad_whatever_its_share() -> None:
    """Of a small one, a megabyte may be less than the limit leaves."""
    reading = ProbeResult(probe="disk", code=1, text="50 percent, 900 kB are free", value=50)
    probe = Probe(name="disk", kind="disk")
    assert judge_probe(probe, reading, (), ProbeSettings()).state == "failing"


@pytest.mark.skipif(shutil.which("unshare") is None, reason="util-linux is not installed")
@pytest.mark.parametrize("kind", ["disk", "inodes"])
def test_a_filesystem_that_was_unmounted_is_a_question(tmp_path: Path, kind: ProbeKind) -> None:
    place = tmp_path / "a mount"
    place.mkdir()
    probe = Probe(name="it", kind=kind, what=str(place))
    script = f"""
        mount -t tmpfs -o size=4m none '{place}' || exit 77
        ( {shell_command_of(probe, "")} ); echo "code=$?"; umount '{place}'
        ( {shell_command_of(probe, "mounted")} ); echo "code=$?"
        ( {shell_command_of(probe, "")} ); echo "code=$?"
    """
    done = subprocess.run(
        ["unshare", "--user", "--map-root-user", "--mount", "bash", "-c", script],
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    if done.returncode == 77:
        pytest.skip("nothing may be mounted here")
    first, second, third, _ = done.stdout.split("code=")
    assert "keep=mounted" in first and second.startswith("0")
    assert "is not mounted any more" in second and "keep=mounted" in second
    assert third.startswith(str(QUESTION_EXIT_CODE if kind == "disk" else 3))
    assert "keep=" not in third.partition("\n")[2], "it was no mount point when first seen"


def test_only_a_disk_that_is_gone_asks() -> None:
    gone = ProbeResult(probe="disk", code=QUESTION_EXIT_CODE, text="/data is not mounted any more")
    verdict = judge_probe(Probe(name="disk", kind="disk"), gone, (), ProbeSettings())
    assert (verdict.state, verdict.question) == ("failing", INTENDED_QUESTION)
    command = Probe(name="own", kind="command", what="exit 4")
    assert judge_probe(command, gone, (), ProbeSettings()).question == ""


@pytest.mark.parametrize("kind", ["log", "config", "certificate", "load", "answers"])
def test_what_could_not_be_read_in_time_is_unknown(kind: ProbeKind) -> None:
    """A busy host was not looked at; nobody refused an answer."""
    late = ProbeResult(probe="it", code=None)
    verdict = judge_probe(Probe(name="it", kind=kind), late, (), ProbeSettings())
    assert (verdict.state, verdict.detail) == ("unknown", "it could not be read within 5 s")


@pytest.mark.parametrize("kind", ["port", "http", "redis", "disk", "command", "tls"])
def test_who_does_not_answer_in_time_fails(kind: ProbeKind) -> None:
    late = ProbeResult(probe="it", code=None)
    verdict = judge_probe(Probe(name="it", kind=kind), late, (), ProbeSettings())
    assert (verdict.state, verdict.detail) == ("failing", "no answer within 5 s")


def test_some_processes_more_than_usual_wake_nobody_and_a_flood_says_what_is_usual() -> None:
    probe = Probe(name="processes", kind="processes", baseline=True)
    usual = (30.0, 31.0, 30.0, 29.0) * 10

    def judge(count: float) -> ProbeVerdict:
        text = f"{count:g} processes, 0.1 percent of what is possible"
        result = ProbeResult(probe="processes", code=0, text=text, value=count)
        return judge_probe(probe, result, usual, ProbeSettings())

    assert judge(56.0).state == "fine"
    flood = judge(400.0)
    assert flood.state == "failing"
    assert headline(flood.detail).endswith("while usual is 30, at most 130")


@pytest.mark.parametrize(
    ("usual", "now", "state"),
    [(0.02, 7.0, "failing"), (0.02, 1.2, "fine"), (2.0, 4.5, "fine"), (2.0, 7.0, "failing")],
)
def test_a_page_that_takes_seconds_longer_than_usual_is_noticed(
    usual: float, now: float, state: ProbeState
) -> None:
    probe = Probe(name="http-80", kind="http", what="http://127.0.0.1/", baseline=True)
    result = ProbeResult(probe="http-80", code=0, text=f"{now:g} seconds for status 200", value=now)
    verdict = judge_probe(probe, result, (usual,) * 30, ProbeSettings())
    assert verdict.state == state
    assert ("while usual is" in verdict.detail) is (state == "failing")
    few = judge_probe(probe, result, (usual,) * 5, ProbeSettings())
    assert few.state == "fine", "nothing is known yet"
