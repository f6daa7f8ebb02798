"""A mistake in a policy file is told with file, line and cause; a broken file stops the start."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from policy_setup import load

from hermes.core.errors import SettingsError
from hermes.policy.loading import (
    BUILT_IN_SETS_FOLDER,
    clock_in_timezone,
    load_policies,
    open_rule_set,
)
from hermes.policy.rules.documents import check_documents_together, load_file, load_folder
from hermes.policy.settings import PolicySettings

GOOD = """\
apiVersion: hermes/v1
kind: ActionPolicy
metadata: {name: prod-writes, description: Changes in production wait for a person}
spec:
  mode: enforce
  match:
    any:
      - tool: [terminal, execute_code, "mcp:*"]
        effects: [delete, write, service-change]
        program: [rm, find, systemctl]
        paths: {under: [/etc, /srv]}
        target: {environment: prod, service: "postgres*"}
        incident: {severity: [P0, P1]}
        actor: {origin: [cron, subagent], tainted: true}
        when: "now.hour < 8 || now.weekday in [5, 6]"
  exclude:
    any: [{paths: {under: [/tmp]}}]
  decide:
    effect: ask
    approvers: {from: [oncall], count: 2, not: [requester]}
    timeout: 10m
    escalate: [{after: 3m, to: leads}]
    grant: {scope: exact-action, uses: 1, valid_for: 15m}
    rate_limit: {key: service, max: 3, per: 1h}
  message: Say what you will change and how to undo it.
"""

EXCEPTION = """\
apiVersion: hermes/v1
kind: PolicyException
metadata: {name: migration}
spec:
  owner: ann
  reason: the move to the new disks
  expires: 2099-12-31
  policies: [destructive]
  match: {any: [{program: rm}]}
"""


def test_the_document_of_the_design_is_read_whole() -> None:
    loaded = load(GOOD)
    assert loaded.problems == ()
    spec = loaded.documents[0].document.spec
    assert spec.decide.approvers.count == 2  # type: ignore[union-attr]


BROKEN = [
    ("unknown key", "  mode: enforce", "  mod: enforce", 5, "did you mean mode?"),
    (
        "unknown clause key",
        "        program: [",
        "        programs: [",
        10,
        "did you mean program?",
    ),
    ("wrong type", "count: 2", "count: two", 20, "expected a whole number, got 'two'"),
    ("wrong choice", "effect: ask", "effect: maybe", 19, "one of allow, dry-run, ask, deny"),
    ("bad CEL", "now.hour < 8 ||", "now.hour < ||", 15, "not valid CEL at 1:12"),
    ("unknown variable", "now.hour < 8", "hour < 8", 15, "there is no variable hour"),
    ("unknown field", "now.hour < 8", "now.hours < 8", 15, "did you mean hour?"),
    ("no truth", '"now.hour < 8 || now.weekday in [5, 6]"', "now.hour", 15, "true or false"),
    ("mixed types", "now.hour < 8", "now.hour < '8'", 15, "No such overload"),
    ("bad duration", "timeout: 10m", "timeout: 10 minutes", 21, "not a length of time"),
    ("bad escalation", "after: 3m", "after: soon", 22, "not a length of time"),
    ("no time", "per: 1h", "per: 0h", 24, "no time at all"),
    ("rate of none", "max: 3", "max: 0", 24, "at least 1"),
    ("no approver", "count: 2", "count: 0", 20, "at least 1"),
    ("unknown effect", "[delete, write,", "[delte, write,", 9, "did you mean delete?"),
    ("unknown origin", "[cron, subagent]", "[crom, subagent]", 14, "did you mean cron?"),
    ("relative path", "under: [/tmp]", "under: [tmp]", 17, "begins with / or ~"),
    ("empty paths", "{paths: {under: [/tmp]}}", "{paths: {}}", 17, "say under"),
    ("missing effect", "effect: ask\n    ", "", 18, "effect is missing"),
    ("missing name", "name: prod-writes, ", "", 3, "name is missing"),
    ("bad name", "name: prod-writes", "name: Prod Writes", 3, "not made of"),
    ("reserved name", "name: prod-writes", "name: default-asks", 3, "take another name"),
    ("bad kind", "kind: ActionPolicy", "kind: ActonPolicy", 2, "did you mean ActionPolicy?"),
    ("bad version", "hermes/v1", "hermes/v2", 1, "must be hermes/v1"),
    ("twice", "  mode: enforce", "  mode: enforce\n  mode: audit", 6, "set twice, first on line 5"),
    ("not a list", "any: [{paths: {under: [/tmp]}}]", "any: /tmp", 17, "expected a list"),
    ("empty match", "any: [{paths: {under: [/tmp]}}]", "any: []", 16, "is empty"),
    ("announced deny", "effect: ask", "effect: deny\n    announce: 30s", 20, "goes with ask"),
    ("not YAML", "  mode: enforce", "  mode: [enforce", 6, "not valid YAML"),
    ("a tab", "  mode: enforce", "\tmode: enforce", 5, "not valid YAML"),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "cause"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN]
)
def test_a_mistake_is_told_with_its_line(old: str, new: str, line: int, cause: str) -> None:
    assert old in GOOD
    loaded = load(GOOD.replace(old, new, 1))
    assert all(problem.fatal for problem in loaded.problems)
    told = [(problem.line, problem.cause) for problem in loaded.problems]
    assert any(at == line and cause in why for at, why in told), told


EXCEPTIONS = [
    ("no owner", "owner: ann", 'owner: " "', 5, "somebody must answer"),
    ("no reason", "  reason: the move to the new disks\n", "", 4, "reason is missing"),
    ("no day", "2099-12-31", "soon", 7, "a day or time such as"),
    ("no such day", "2099-12-31", "2099-02-31", 7, "day is out of range"),
    ("lifts the floor", "[destructive]", '["floor:wipe"]', 8, "cannot be lifted"),
    ("lifts nothing", "[destructive]", "[]", 8, "policies is empty"),
]


@pytest.mark.parametrize(
    ("old", "new", "line", "cause"),
    [row[1:] for row in EXCEPTIONS],
    ids=[row[0] for row in EXCEPTIONS],
)
def test_an_exception_needs_all_that_makes_it_one(
    old: str, new: str, line: int, cause: str
) -> None:
    told = [(problem.line, problem.cause) for problem in load(EXCEPTION.replace(old, new)).problems]
    assert any(at == line and cause in why for at, why in told), told


def test_all_mistakes_are_told_at_once() -> None:
    text = GOOD.replace("mode:", "mod:").replace("count: 2", "count: two").replace("10m", "ten")
    loaded = load(text + "---\n" + EXCEPTION.replace("owner:", "ower:"))
    assert sorted(problem.line for problem in loaded.problems) == [5, 20, 30, 31]


def test_a_file_with_a_good_and_a_bad_document_keeps_the_line_of_the_bad_one() -> None:
    loaded = load(GOOD + "---\n" + GOOD.replace("mode:", "mod:"))
    assert len(loaded.documents) == 1
    assert [problem.line for problem in loaded.problems] == [len(GOOD.splitlines()) + 1 + 5]


def test_two_of_one_name_are_a_mistake_that_names_both_places() -> None:
    problems = list(check_documents_together(load(GOOD + "---\n" + GOOD).documents))
    assert [problem.fatal for problem in problems] == [True]
    assert problems[0].line == 27
    assert "policies/test.yaml:1" in problems[0].cause


def test_an_expired_exception_is_told_and_does_not_stop_the_start() -> None:
    documents = load(EXCEPTION).documents
    (problem,) = check_documents_together(documents, now=datetime(2100, 1, 1, tzinfo=UTC))
    assert "has expired" in str(problem)
    assert not problem.fatal
    assert (
        list(check_documents_together(documents, now=datetime(2099, 12, 31, 23, tzinfo=UTC))) == []
    )


@pytest.mark.parametrize(
    "content", [b"\xff\xfe\x00", b"a: \x07", b"[" * 5000, b"&a [*a]", b"just text"]
)
def test_what_is_no_policy_at_all_is_told_and_breaks_nothing(
    tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "p.yaml").write_bytes(content)
    assert load_file(tmp_path / "p.yaml").problems


def home_with(tmp_path: Path, text: str) -> Path:
    (tmp_path / "policies").mkdir()
    (tmp_path / "policies/mine.yaml").write_text(text)
    return tmp_path


def test_a_broken_file_stops_the_start_and_names_file_and_line(tmp_path: Path) -> None:
    home = home_with(tmp_path, GOOD.replace("effect: ask", "effect: alow"))
    with pytest.raises(SettingsError, match=r"policies/mine\.yaml:19: .*one of allow"):
        open_rule_set(PolicySettings(), home, None, "/home/me")


def test_a_home_without_policies_has_the_built_in_set(tmp_path: Path) -> None:
    rules, problems = open_rule_set(PolicySettings(), tmp_path, None, "/home/me")
    assert "destructive" in {rule.name for rule in rules.rules}
    assert problems == ()


def test_folders_inside_the_folder_are_read_too(tmp_path: Path) -> None:
    (tmp_path / "team").mkdir()
    (tmp_path / "team/a.yml").write_text(GOOD)
    assert len(load_folder(tmp_path).documents) == 1


def project_with(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "project/.hermes/policies"
    folder.mkdir(parents=True)
    (folder / "p.yaml").write_text(text)
    return tmp_path / "project"


def test_a_project_may_tighten_but_not_loosen(tmp_path: Path) -> None:
    allow = GOOD.replace("effect: ask", "effect: allow")
    project = project_with(tmp_path, allow + "---\n" + EXCEPTION)
    found = load_policies(PolicySettings(), tmp_path, project)
    assert ["may only tighten" in problem.cause for problem in found.problems] == [True, True]
    assert load_policies(PolicySettings(project="trust"), tmp_path, project).problems == ()
    assert load_policies(PolicySettings(project="off"), tmp_path, project).problems == ()


def test_a_project_that_tightens_is_heard(tmp_path: Path) -> None:
    found = load_policies(PolicySettings(), tmp_path, project_with(tmp_path, GOOD))
    assert found.problems == ()
    assert "prod-writes" in {placed.document.metadata.name for placed in found.documents}


@pytest.mark.parametrize(
    "file", sorted(BUILT_IN_SETS_FOLDER.glob("*.yaml")), ids=lambda file: file.stem
)
def test_the_built_in_sets_are_without_mistakes(file: Path) -> None:
    loaded = load_file(file)
    assert loaded.problems == ()
    assert list(check_documents_together(loaded.documents)) == []


def test_a_time_zone_nobody_knows_is_told() -> None:
    with pytest.raises(SettingsError, match="no time zone 'Mars/Olympus'"):
        clock_in_timezone("Mars/Olympus")
    assert clock_in_timezone("UTC")().utcoffset().total_seconds() == 0  # type: ignore[union-attr]


def test_the_length_of_an_announcement_is_the_operators(tmp_path: Path) -> None:
    rules, _ = open_rule_set(PolicySettings(announce=5), tmp_path, None, "/home/me")
    assert {rule.ask.announce for rule in rules.rules if rule.name == "moderate" and rule.ask} == {
        5
    }
    rules, _ = open_rule_set(PolicySettings(announce=0), tmp_path, None, "/home/me")
    assert {rule.ask.announce for rule in rules.rules if rule.ask} == {0}
