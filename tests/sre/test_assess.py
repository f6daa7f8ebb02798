"""Is anything wrong at all? An all-clear only on positive grounds, never where a fault is."""

import os
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.incident import AlertFacts
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import open_episode
from hermes.gym.episodes.responder_context import open_bare_run, sandbox_rules
from hermes.gym.random_source import Split
from hermes.gym.scenario import find_scenario
from hermes.policy.command_analysis import analyse_command
from hermes.skills.playbook.parameters import fill_template
from hermes.skills.supervisors.commands import HostSupervisors
from hermes.skills.supervisors.units import HostUnit
from hermes.sre.assessment.assess import assess_host
from hermes.sre.assessment.host_state import (
    SCRIPTS_FOLDER,
    HostObservation,
    HostState,
    LogSummary,
    MonitorConfig,
    UnitState,
    parse_host_state,
    parse_log_summaries,
    parse_monitors,
    read_script,
)
from hermes.sre.assessment.symptoms import (
    Assessment,
    alert_unit,
    find_false_alarm,
    find_past_trouble,
    find_recent_symptoms,
    find_returned_trouble,
    find_symptoms,
    numbers_in_line,
    related_symptoms,
)

in_a_box = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)
ALERT = AlertFacts(title="disk usage of web is 12 percent, limit 5", labels={"service": "web"})
RINGS = MonitorConfig(
    unit="watch.service", file="/etc/watch.conf", lines=("what = disk usage in percent", "max = 5")
)


def host(**logs: LogSummary) -> HostObservation:
    units = tuple(UnitState(name=f"{name}.service", active="active", up=99) for name in logs)
    return HostObservation(
        state=HostState(units=units),
        logs={f"{name}.service": log for name, log in logs.items()},
        checks=(RINGS,),
    )


def log(unit: str, runs: str = "") -> LogSummary:
    pairs = tuple((mark[0], int(mark[1:])) for mark in runs.split())
    bad = sum(count for kind, count in pairs if kind == "F")
    return LogSummary(
        unit=f"{unit}.service",
        runs={"/sum": pairs} if pairs else {},
        asked=sum(count for _, count in pairs),
        bad=bad,
        errors=bad,
        after=pairs[-1][1] if pairs else 0,
    )


async def judged(name: str, seed: int, split: Split = "train") -> Assessment:
    scenario = find_scenario(name)
    story = scenario.draw_spec(seed, split)
    facts = AlertFacts(title=story.alert.title, text=story.alert.text, labels=story.alert.labels)
    async with (
        open_episode(scenario, story) as episode,
        open_bare_run(episode, sandbox_rules()) as stage,
    ):
        return await assess_host(facts, stage.execute)


@in_a_box
@pytest.mark.anyio
@pytest.mark.parametrize(
    ("name", "verdict"), [("false-alarm", "no-incident"), ("already-recovered", "recovered")]
)
async def test_a_host_that_is_well_is_said_to_be_so_with_what_shows_it(
    name: str, verdict: str
) -> None:
    found = await judged(name, 3, "held-out")
    assert found.verdict == verdict, found.reasons
    assert found.component
    assert found.mechanism
    assert len(found.evidence) >= 4


@in_a_box
@pytest.mark.anyio
@pytest.mark.parametrize(
    "name", ["cron-failing-silently", "hung-worker", "service-crashed", "cpu-runaway"]
)
async def test_where_a_fault_is_nobody_says_that_all_is_well(name: str) -> None:
    found = await judged(name, 3)
    assert not found.all_clear, found.reasons


@pytest.mark.parametrize("kind", ["systemd", "supervisord"])
@pytest.mark.parametrize("file", sorted(SCRIPTS_FOLDER.glob("*.sh")), ids=lambda file: file.stem)
def test_its_looks_change_nothing(file: Path, kind: str) -> None:
    units = [] if kind == "systemd" else [HostUnit(name="api", kind=kind)]
    command = fill_template(file.read_text(), {}, HostSupervisors(units), partial=True)
    assert analyse_command(command).effects == {"read"}
    assert file.stem in ("state", "logs", "checks")


def test_a_check_that_rings_at_what_harms_nobody_is_a_false_alarm() -> None:
    monitor = LogSummary(unit="watch.service", last="disk usage in percent 12 > 5", lines=4)
    found = find_false_alarm(ALERT, host(web=log("web", "S9"), watch=monitor))
    assert found is not None
    assert (found.component, found.value) == ("/etc/watch.conf", "max = 5")
    assert found.monitor == "watch.service"


@pytest.mark.parametrize(
    ("ring", "web"),
    [
        ("disk usage in percent 96 > 5", log("web", "S9")),
        ("disk usage in percent 12 > 5", log("web", "S9 F2")),
        ("nothing was measured", log("web", "S9")),
    ],
    ids=["it does harm", "somebody else complains", "it does not ring"],
)
def test_otherwise_it_is_none(ring: str, web: LogSummary) -> None:
    monitor = LogSummary(unit="watch.service", last=ring, lines=4)
    assert find_false_alarm(ALERT, host(web=web, watch=monitor)) is None


def test_a_small_number_of_something_old_or_waiting_may_well_be_trouble() -> None:
    facts = AlertFacts(title="age of backup 30 hours, limit 5", labels={"service": "web"})
    monitor = LogSummary(unit="watch.service", last="backup age 30 > 5", lines=4)
    assert find_false_alarm(facts, host(web=log("web", "S9"), watch=monitor)) is None


def test_errors_that_stopped_are_trouble_past_once_they_stay_away() -> None:
    said = ("2026-01-01 10:00:00 ERROR no answer: /scratch: No space left on device",)
    before = host(web=log("web", "S4 F3 S6"))
    web = LogSummary(
        unit="web.service", runs={"/sum": (("S", 4), ("F", 3), ("S", 9))}, error_lines=said
    )
    web = replace(web, asked=16, bad=3, errors=3, after=9)
    now = host(web=web)
    found = find_past_trouble(ALERT, now)
    assert found is not None
    assert (found.verdict, found.component) == ("recovered", "/scratch")
    assert find_returned_trouble(before, now, found) == []
    again = host(web=replace(web, errors=4))
    assert find_returned_trouble(before, again, found) == ["web.service failed again"]
    assert (
        find_returned_trouble(now, now, found) != []
    )  # nobody asked since: nothing shows that it works


@pytest.mark.parametrize(
    ("runs", "wrong", "unsure"),
    [("S9", False, False), ("S9 F1", True, True), ("F3 S1", False, True),
     ("F3 S4", False, False), ("F1 S2 F1 S9", False, True), ("F1 S2 F1 S30", False, False)],
)  # fmt: skip
def test_answers_are_read_in_their_order(runs: str, wrong: bool, unsure: bool) -> None:
    seen = host(web=log("web", runs))
    assert bool(find_symptoms(ALERT, seen)) == wrong
    assert bool(find_recent_symptoms(ALERT, seen)) == unsure


def test_what_was_given_up_on_long_ago_is_not_what_rang() -> None:
    old = UnitState(name="legacy.service", active="failed")
    seen = host(web=log("web", "S9"))
    beside = HostObservation(state=HostState(units=(*seen.state.units, old)), logs=seen.logs)
    assert find_symptoms(ALERT, beside) == []
    assert find_symptoms(AlertFacts(title="legacy is down"), beside) == ["legacy.service is failed"]


def test_an_alert_is_about_the_unit_that_its_labels_name() -> None:
    seen = host(web=log("web"), cache=log("cache"))
    assert (
        alert_unit(AlertFacts(title="cache and more", labels={"s": "web"}), seen) == "web.service"
    )
    assert alert_unit(AlertFacts(title="cache is slow"), seen) == "cache.service"
    assert alert_unit(AlertFacts(title="webcache is slow"), seen) == ""


def test_a_busy_process_explains_only_what_is_slow() -> None:
    seen = ["process 9 is busy all the time", "/srv is full"]
    assert related_symptoms(seen, AlertFacts(title="redis: nothing answers")) == ["/srv is full"]
    assert related_symptoms(seen, AlertFacts(title="redis is slow")) == seen


def test_a_busy_process_of_hermes_or_below_it_is_not_named() -> None:
    rows = {"901 (hermes)": 1, "902 (worker)": 1, "903 (bash)": 901}
    line = "{} R {} 1 1 0 -1 0 0 0 0 0 {} 0 0 0 20 0 1 0 100 1 1"
    one, two = (
        "\n".join(line.format(name, parent, ticks) for name, parent in rows.items())
        for ticks in (0, 900)
    )
    text = read_script("state")
    script = "from=100 to=110\n" + text[text.index("printf '%s\\n--") :]
    variables = {**os.environ, "one": one, "two": two}
    done = subprocess.run(["bash", "-c", script], env=variables, capture_output=True, text=True)
    assert done.stdout == "busy=902 share=90\n", done.stderr


def test_what_the_looks_print_is_read_and_what_is_cut_off_does_no_harm() -> None:
    logs = parse_log_summaries(
        "log=web.service\ncount=7 errors=2 after=1 asked=5 bad=2 died=0\nruns=/a S:3 F:2\n"
        "said=ERROR no\nlast=INFO yes\nruns=\nruns=/b x\nlog=\n"
    )
    web = logs["web.service"]
    assert (web.lines, web.errors, web.asked, web.error_lines) == (7, 2, 5, ("ERROR no",))
    assert web.runs == {"/a": (("S", 3), ("F", 2))}
    state = parse_host_state(
        "unit=web.service ActiveState=active MainPID=7 NRestarts=2 rss=10 up=3\ndisk=/x used=95 "
        "free=5000\ndisk=/dev/shm used=70 free=99999\nmemory=40\nbusy=9 share=90\nrubbish\n"
    )
    assert (state.units[0].restarts, state.full, state.busy) == (2, ("/x", "/dev/shm"), (9,))
    (check,) = parse_monitors("noise\ncheck=watch.service /etc/watch.conf\n  max = 5\n")
    assert (check.unit, check.file, check.lines) == (
        "watch.service",
        "/etc/watch.conf",
        ("max = 5",),
    )


def test_a_restart_is_no_symptom_when_it_is_not_known_how_long_the_unit_runs() -> None:
    said = "unit=web.service ActiveState=active MainPID=7 NRestarts=7"
    facts = AlertFacts(title="web: no answer", labels={"service": "web"})
    for times, expected in ("", []), (" rss=9 up=3", ["was restarted 7 times, and runs for 3.0 s"]):
        observed = HostObservation(state=parse_host_state(said + times))
        found = find_symptoms(facts, observed)
        assert [each.removeprefix("web.service ") for each in found] == expected


def test_numbers_are_found_beside_signs_and_never_in_dates() -> None:
    assert numbers_in_line("2026-11-15 08:52:00 alarm value=0.2 max=0 at web-2:8080") == [
        "0.2",
        "0",
    ]
    assert numbers_in_line("disk 12/5, notifying") == ["12", "5"]


def test_strangers_words_are_not_read_before_they_can_matter() -> None:
    assert "words=0" in read_script("logs")
    assert read_script("words") == read_script("logs").replace("words=0", "words=1")
