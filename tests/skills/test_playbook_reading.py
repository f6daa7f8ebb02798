"""A readable error, with its line, for every mistake a playbook can have."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from hermes.skills.playbook import schema
from hermes.skills.playbook.parameters import fill_template, find_value_problem
from hermes.skills.playbook.reader import parse_playbook

GOOD = """\
version: 1
summary: fixes it
signature:
  words: [it is broken]
  probes:
    - name: confirm
      command: systemctl is-failed {{service}}
parameters:
  service: {from: alert, labels: [service], kind: word}
  port: {from: confirm, pattern: 'port=(\\d+)', kind: port}
steps:
  - name: mend
    command: mend {{service}} --port {{port}}
    undo: unmend {{service}}
verify:
  - name: runs
    command: systemctl is-active {{service}}
"""


def told(old: str, new: str) -> list[tuple[int, str]]:
    assert old in GOOD
    _, problems = parse_playbook(GOOD.replace(old, new, 1))
    return [(each.line, each.text) for each in problems if each.fatal]


def test_a_good_one_is_read_without_complaint() -> None:
    playbook, problems = parse_playbook(GOOD)
    assert playbook is not None
    assert problems == []
    assert playbook.steps[0].risk == "change"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        ("summary: fixes it", "sumary: fixes it", 2, "did you mean summary?"),
        ("    undo: unmend", "    undone: unmend", 14, "did you mean undo?"),
        ("name: mend\n", "name: Mend It\n", 12, "name"),
        ("command: mend {{service}}", "command: mend {{servce}}", 13, "did you mean service?"),
        ("is-failed {{service}}", "is-failed {{port}}", 7, "here: it comes from confirm"),
        ("from: confirm", "from: confrm", 10, "did you mean confirm?"),
        ("kind: word", "kind: wort", 9, "kind"),
        ("command: mend {{service}}", 'command: mend "{{service}}"', 13, "stands inside quotes"),
        ("'port=(\\d+)'", "'port=(\\d+'", 10, "not a regular expression"),
        ("name: runs", "name: mend", 16, "used twice"),
        ("version: 1", "version: 2", 1, "version"),
        ("  - name: mend\n", "  - nome: mend\n", 12, "did you mean name?"),
        ("version: 1", "version: 1\nversion: 1", 2, "set twice, first on line 1"),
        ("    command: systemctl is-active {{service}}\n", "", 16, "command is missing"),
        ("labels: [service]", "default: 'a b'", 9, "the default 'a b' is not a valid word"),
        ("summary: fixes it", "summary: [fixes", 3, "not valid YAML"),
    ],
)  # fmt: skip
def test_each_mistake_has_its_line_and_says_what_to_do(
    old: str, new: str, line: int, words: str
) -> None:
    found = told(old, new)
    assert any(words in cause for _, cause in found), found
    assert any(at == line for at, cause in found if words in cause), found


def test_one_mistake_does_not_hide_the_next() -> None:
    _, problems = parse_playbook(
        GOOD.replace("name: mend\n", "nome: mend\n").replace("name: runs", "nome: runs")
    )
    assert [each.line for each in problems] == [12, 12, 16, 16] or {12, 16} <= {
        each.line for each in problems
    }


def test_what_is_no_playbook_at_all_is_told() -> None:
    for text in ("", "- a\n", "just words", "a: &a [*a]\n", "\x00"):
        playbook, problems = parse_playbook(text)
        assert playbook is None
        assert problems


def test_a_change_without_an_undo_is_noted_not_refused() -> None:
    playbook, problems = parse_playbook(GOOD.replace("    undo: unmend {{service}}\n", ""))
    assert playbook is not None
    assert [(each.fatal, "no undo" in each.cause) for each in problems] == [(False, True)]


def test_a_value_can_never_say_more_than_one_word() -> None:
    hostile = "x'; rm -rf / #$(reboot)`id`\n&& true"
    assert fill_template("echo {{ a }} end", {"a": hostile}) == (
        "echo 'x'\"'\"'; rm -rf / #$(reboot)`id`\n&& true' end"
    )


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("port", "8080", "70000"),
        ("path", "/etc/x.conf", "/etc/../../x"),
        ("path", "/etc/x y.conf", "etc/x"),
        ("unit", "orders.service", "orders"),
        ("word", "a-b_c", "-rf"),
        ("word", "a/b", "a b"),
        ("number", "1.5", "1e5"),
        ("host", "web-1.example", "-oProxyCommand=x"),
    ],
)
def test_values_are_held_to_their_kind(kind: schema.ParameterKind, good: str, bad: str) -> None:
    assert find_value_problem(good, kind) == ""
    assert find_value_problem(bad, kind)


def test_the_schema_file_is_made_of_the_types() -> None:
    file = Path(schema.__file__).with_name("playbook.schema.json")
    made = {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Hermes playbook",
        **sort_enums(msgspec.json.schema(schema.Playbook)),
    }
    assert json.loads(file.read_text()) == json.loads(json.dumps(made))


def sort_enums(part: Any) -> Any:
    """The order of choices is random: sorted, the file stays the same."""
    if isinstance(part, dict):
        return {
            key: sorted(value, key=str) if key == "enum" else sort_enums(value)
            for key, value in part.items()
        }
    return [sort_enums(each) for each in part] if isinstance(part, list) else part
