"""The right skill for an incident, and none when none fits."""

from pathlib import Path

import pytest

from hermes.core.incident import AlertFacts
from hermes.skills.discovery import default_roots
from hermes.skills.library import SkillLibrary
from hermes.skills.matching import SkillMatcher, extract_terms


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> SkillLibrary:
    return SkillLibrary(default_roots(tmp_path_factory.mktemp("home")))


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
def test_an_alert_finds_its_skill_first(library: SkillLibrary, alert: str, skill: str) -> None:
    assert SkillMatcher(library.skills).rank(alert)[0].skill == skill


@pytest.mark.parametrize(
    "alert", ["quarterly sales figures are late", "please water the plants", "", "12345 !!"]
)
def test_there_is_no_skill_where_none_fits(library: SkillLibrary, alert: str) -> None:
    assert SkillMatcher(library.skills).rank(alert) == []


def test_words_meet_whatever_their_ending_and_names_do_not_count() -> None:
    assert set(extract_terms("certificates expired")) == set(extract_terms("certificate expires"))
    assert extract_terms("web-12:8080 /var/log/x 3f2a9c81aa") == []


def test_only_trusted_playbooks_are_candidates(tmp_path: Path) -> None:
    library = SkillLibrary(default_roots(tmp_path), {"port-taken": "draft"})
    names = {
        skill.name
        for skill in SkillMatcher(library.skills).candidates(AlertFacts(title="it is down"))
    }
    assert "port-taken" not in names
    assert "config-restore" in names
    assert "incident-commander" not in names
