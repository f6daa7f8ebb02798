"""The right skill for an incident, and none when none fits."""

from pathlib import Path

import pytest

from hermes.skills.cards import roots
from hermes.skills.library import Library
from hermes.skills.matching import Matcher, terms
from hermes.skills.playbook.facts import Facts


@pytest.fixture
def library(tmp_path: Path) -> Library:
    return Library(roots(tmp_path))


@pytest.mark.parametrize(
    ("alert", "skill"),
    [
        ("the TLS certificate of shop.example expired", "certificate-expired"),
        ("redis: OOM command not allowed when used memory > maxmemory", "redis-out-of-memory"),
        ("nginx cannot bind: address already in use", "port-taken"),
        ("filesystem /data is full, no space left on device", "disk-full-runaway-log"),
        ("password authentication failed for database role orders", "password-rotated"),
        ("queries blocked, sessions idle in transaction", "idle-in-transaction"),
        ("consumer lag: the backlog of jobs grows", "slow-consumer"),
    ],
)
def test_an_alert_finds_its_skill_first(library: Library, alert: str, skill: str) -> None:
    assert Matcher(library.skills).rank(alert)[0].skill == skill


@pytest.mark.parametrize(
    "alert", ["quarterly sales figures are late", "please water the plants", "", "12345 !!"]
)
def test_there_is_no_skill_where_none_fits(library: Library, alert: str) -> None:
    assert Matcher(library.skills).rank(alert) == []


def test_words_meet_whatever_their_ending_and_names_do_not_count() -> None:
    assert set(terms("certificates expired")) == set(terms("certificate expires"))
    assert terms("web-12:8080 /var/log/x 3f2a9c81aa") == []


def test_only_trusted_playbooks_are_candidates(tmp_path: Path) -> None:
    library = Library(roots(tmp_path), {"port-taken": "draft"})
    names = {skill.name for skill in Matcher(library.skills).candidates(Facts(title="it is down"))}
    assert "port-taken" not in names
    assert "config-restore" in names
    assert "incident-commander" not in names
