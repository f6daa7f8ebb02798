"""What was allowed for good is one exact thing, can be read, and can be taken back."""

import stat
from datetime import UTC, datetime
from pathlib import Path

import pytest
from policy_setup import HOME, NOON, call, deed, step

from hermes.core.errors import SettingsError
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.approvals.always_allowed import (
    allow_always,
    exceptions_from_allowlist,
    list_allowlisted_commands,
    list_always,
    revoke_always,
)
from hermes.policy.command_analysis import analyse_command
from hermes.policy.loading import compile_rule_set, load_set, open_rule_set
from hermes.policy.rules.documents import load_file
from hermes.policy.rules.evaluation import evaluate
from hermes.policy.settings import PolicySettings

DELETE = step("delete", program="rm", node="rm -rf /srv/old")


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "policies/always.yaml"


def always(file: Path, action: str, shown: str = "rm -rf /srv/old") -> str:
    return allow_always(file, action=action, shown=shown, owner="ann", days=30).name


def test_always_lifts_the_question_for_that_exact_action(file: Path) -> None:
    what, other = deed(DELETE), deed(step("delete", program="rm", node="rm -rf /srv/new"))
    always(file, what.hash)
    rules, _ = open_rule_set(PolicySettings(), file.parent.parent, None, HOME)
    found = evaluate(rules, what, now=datetime.now(UTC))
    assert (found.verdict, found.rule) == ("allow", f"always-{what.hash[:16]}")
    assert evaluate(rules, other, now=datetime.now(UTC)).verdict == "ask"


def test_always_never_reaches_the_floor(file: Path) -> None:
    what = deed(step("write wipe", program="mkfs"))
    always(file, what.hash)
    rules, _ = open_rule_set(PolicySettings(), file.parent.parent, None, HOME)
    assert evaluate(rules, what, now=datetime.now(UTC)).verdict == "deny"


def test_always_does_not_cover_the_same_action_when_it_is_tainted(file: Path) -> None:
    what = deed(DELETE, tainted=True)
    always(file, what.hash)
    rules, _ = open_rule_set(PolicySettings(), file.parent.parent, None, HOME)
    assert evaluate(rules, what, now=datetime.now(UTC)).rule == "tainted-asks"


def test_the_file_is_a_policy_that_people_can_read(file: Path) -> None:
    always(file, "a" * 32, shown="rm -rf 'x: y' # «é»")
    assert load_file(file).problems == ()
    text = file.read_text()
    assert "ann" in text
    assert "rm -rf 'x: y' # «é»" in [one.shown for one in list_always(file)]
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_it_is_listed_and_revoked_one_by_one(file: Path) -> None:
    first, second = always(file, "a" * 32), always(file, "b" * 32)
    assert [one.name for one in list_always(file)] == [first, second]
    assert revoke_always(file, first)
    assert not revoke_always(file, first)
    assert [one.name for one in list_always(file)] == [second]


def test_saying_it_twice_renews_it(file: Path) -> None:
    always(file, "a" * 32)
    always(file, "a" * 32)
    assert len(list_always(file)) == 1


def test_what_a_person_wrote_into_the_file_stays(file: Path) -> None:
    always(file, "a" * 32)
    file.write_text(file.read_text() + "# kept for the audit\n")
    name = always(file, "b" * 32)
    revoke_always(file, name)
    assert "# kept for the audit" in file.read_text()


def test_a_file_broken_by_hand_is_told_and_left_alone(file: Path) -> None:
    always(file, "a" * 32)
    broken = file.read_text().replace("owner:", "ower:")
    file.write_text(broken)
    with pytest.raises(SettingsError, match=r"always\.yaml:\d+: .*did you mean owner"):
        always(file, "b" * 32)
    assert file.read_text() == broken


def test_nothing_was_ever_allowed(file: Path) -> None:
    assert list_always(file) == []
    assert not revoke_always(file, "always-x")


def test_command_allowlist_means_exact_commands() -> None:
    documents = (
        *load_set("careful").documents,
        *exceptions_from_allowlist(["rm -rf /srv/old"]).documents,
    )
    rules = compile_rule_set(documents, PolicySettings(), HOME)
    reader = ActionReader(analyse_command)

    def verdict(command: str) -> str:
        what = reader.read(call("terminal", command=command), ActionContext(cwd="/srv", home=HOME))
        return evaluate(rules, what, now=NOON).verdict

    assert verdict("rm -rf /srv/old") == "allow"
    assert verdict("rm -rf /srv/old /srv/new") == "ask"
    assert verdict("rm -rf /srv/old; rm -rf /srv/new") == "ask"


def test_command_allowlist_is_shown_and_a_pattern_is_pointed_out() -> None:
    assert [one.shown for one in list_allowlisted_commands([" uptime ", "uptime"])] == ["uptime"]
    (problem,) = exceptions_from_allowlist(["git*"]).problems
    assert "not as a pattern" in str(problem)
    assert not problem.fatal
    (problem,) = exceptions_from_allowlist([" "]).problems
    assert problem.fatal
