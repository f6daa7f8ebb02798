"""`hermes health learned`: listed with reasons, switched off, marked, and never out of sight."""

import json
from pathlib import Path

import anyio
import pytest
from hermes_command import Hermes

from hermes.core.events.incidents import IncidentOpened
from hermes.environments.local import LocalEnvironment
from hermes.memory.journal.sqlite_journal import SqliteJournal
from hermes.sre.probes.answer_facts import describe_answer
from hermes.sre.probes.learned.learner import LearnedChecks
from hermes.sre.probes.learned.state import Observation
from hermes.sre.probes.learned.store import LearnedStore
from hermes.sre.probes.probe import Probe
from hermes.sre.probes.scheduler import probe_alert

NAME = "learned-http-8080-shape"


@pytest.fixture
def learned_home(hermes: Hermes) -> Hermes:
    checks = LearnedChecks()
    facts = describe_answer(200, "application/json", b'{"items": [1], "total": 1}', 0.01)
    for minute in range(300):
        at = 1_800_000_000.0 + 60 * minute
        seen = Observation(subject="http-8080", service="shop", at=at, answer=facts)
        assert not checks.observe(seen)
    hermes.home.mkdir(exist_ok=True)
    (hermes.home / "probes.yaml").write_text("probes:\n  - name: cpu\n    kind: cpu\n")
    target = LocalEnvironment(Path("/"), {}).target
    LearnedStore(hermes.home, target).save(checks.state)
    return hermes


def listed(hermes: Hermes) -> dict[str, dict[str, object]]:
    done = hermes("health", "learned", "--json")
    assert done.returncode == 0, done.stderr
    return {each["check"]: each for each in json.loads(done.stdout)["checks"]}


def test_learned_checks_are_listed_with_their_reasons(learned_home: Hermes) -> None:
    found = listed(learned_home)
    assert {*found} == {"learned-http-8080-status", "learned-http-8080-type", NAME}
    reason = found[NAME]["reason"]
    assert isinstance(reason, str)
    assert reason.startswith(
        "answers 200 with the keys items, items[], total in 300 of 300 answers"
    )
    assert "weight 1" in learned_home("health", "learned", NAME).stdout


def test_a_marked_check_stays_in_sight(learned_home: Hermes) -> None:
    assert json.loads(learned_home("health", "--json").stdout)["learned"] == []
    assert learned_home("health", "learned", NAME, "--false-alarm").returncode == 0
    assert listed(learned_home)[NAME]["weight"] == 0.5
    assert f"learned check {NAME}: weight 0.5" in learned_home("health").stdout
    assert learned_home("health", "learned", NAME, "--off").returncode == 0
    assert f"learned check {NAME}: off, raises no alert" in learned_home("health").stdout
    [shown] = json.loads(learned_home("health", "--json").stdout)["learned"]
    assert (shown["check"], shown["on"], shown["false_alarms"]) == (NAME, False, 1)
    assert learned_home("health", "learned", NAME, "--on").returncode == 0
    assert json.loads(learned_home("health", "--json").stdout)["learned"] == []


def test_an_incident_that_was_none_lowers_the_weight_of_its_check(learned_home: Hermes) -> None:
    probe = Probe(name=NAME, kind="learned", service="shop")
    here = LocalEnvironment(Path("/"), {})
    alert = probe_alert(probe, here, "answers 200, but `items` is missing")
    opened = IncidentOpened(
        run="run-1",
        incident="inc-1",
        title=alert.title,
        severity="P2",
        service="shop",
        fingerprint=alert.fingerprint,
    )

    async def record() -> None:
        async with SqliteJournal.open(learned_home.home / "journal.db") as journal:
            await journal.append(alert, opened)

    anyio.run(record)
    done = learned_home("incident", "close", "inc-1", "--as", "no-incident")
    assert done.returncode == 0, done.stderr
    assert f"hermes health learned {NAME}" in done.stdout + done.stderr
    assert listed(learned_home)[NAME]["weight"] == 0.5


def test_a_check_that_a_setting_switches_off_is_listed(learned_home: Hermes) -> None:
    (learned_home.home / "config.yaml").write_text("sre:\n  learned:\n    disabled: [shape]\n")
    assert listed(learned_home)[NAME]["on"] is False
    assert f"learned check {NAME}: off" in learned_home("health").stdout


def test_an_unknown_name_is_said_with_what_to_do(learned_home: Hermes) -> None:
    done = learned_home("health", "learned", "nothing", "--off")
    assert done.returncode == 1
    assert "`hermes health learned` lists their names" in done.stdout + done.stderr
    assert learned_home("health", "learned", "--off").returncode == 2
