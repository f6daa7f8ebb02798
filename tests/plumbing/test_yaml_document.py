import msgspec
import pytest

from hermes.plumbing.problems import Problem, closest_name, suggest_name
from hermes.plumbing.yaml_document import (
    YamlFileError,
    dump_yaml,
    load_yaml,
    read_yaml_documents,
)


class Host(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    port: int = 22


class HostList(msgspec.Struct, forbid_unknown_fields=True):
    hosts: list[Host]


def problem_of(text: str) -> str:
    with pytest.raises(YamlFileError) as caught:
        load_yaml(text, "a.yaml")
    return str(caught.value.problem)


def test_data_and_positions() -> None:
    document = load_yaml("hosts:\n  - name: web\n    port: 80\n")
    assert document.data == {"hosts": [{"name": "web", "port": 80}]}
    assert document.position("hosts") == (1, 1)
    assert document.position("hosts", 0, "port") == (3, 5)
    assert document.line_of("hosts", 0, "user") == 2, "the nearest key above it"


def test_lines_count_from_the_given_one() -> None:
    assert load_yaml("\na: 1\n", first_line=10).line_of("a") == 11
    with pytest.raises(YamlFileError) as caught:
        load_yaml("a: 1\na: 2\n", first_line=10)
    assert caught.value.in_file("b.yaml").where == "b.yaml:11:1"


def test_an_empty_text_has_no_data() -> None:
    assert load_yaml("# only a comment\n").data is None


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a: [1\n", "a.yaml:2:1: not valid YAML: did not find expected ',' or ']'"),
        ("a:\n\tb: 1\n", "indent with spaces, not with tabs"),
        ("a:\n  b: 1\n  b: 2\n", "a.yaml:3:3: a.b is set twice, first on line 2"),
        ("a: &x\n  - *x\n", "a.0: an alias contains itself"),
        ("a: &x {<<: *x}\n", "too deeply nested"),
        ("a: {<<: 1}\n", "a.yaml:1:9: << needs a mapping"),
        ("a: 2026-02-31\n", "a.yaml:1:4: 2026-02-31: day is out of range for month"),
        ("a: \x00\n", "a.yaml:1: not valid YAML"),
        ("a: !!python/object:os.system x\n", "not valid YAML: could not determine"),
        ("a: 1\n---\nb: 2\n", "a.yaml:3: expected a single document"),
        ("[" * 60 + "]" * 60, "too deeply nested"),
    ],
)
def test_each_problem_has_its_position(text: str, shown: str) -> None:
    assert shown in problem_of(text)


def test_merged_keys_are_overridden_by_own_and_earlier_ones() -> None:
    text = "x: &x {a: 1, b: 1}\ny: &y {b: 2, c: 2}\nz:\n  c: 3\n  <<: [*x, *y]\n"
    assert load_yaml(text).data["z"] == {"a": 1, "b": 1, "c": 3}


@pytest.mark.parametrize("form", ["[{}]", "{{<<: [{}]}}"])
def test_nested_aliases_do_not_multiply_without_end(form: str) -> None:
    lines = ["a0: &a0 {k: v}"]
    for level in range(1, 12):
        lines.append(f"a{level}: &a{level} " + form.format(", ".join([f"*a{level - 1}"] * 9)))
    assert "too many values" in problem_of("\n".join(lines))


def test_a_long_file_without_aliases_is_read() -> None:
    numbers = list(range(30_000))
    assert load_yaml("[" + ",".join(map(str, numbers)) + "]").data == numbers


def test_all_documents_and_all_problems_are_returned() -> None:
    text = "a: 1\na: 2\n---\n---\nb: 2026-02-31\n---\nc: ]\n"
    documents, problems = read_yaml_documents(text, "a.yaml")
    assert [(each.line, each.data) for each in documents] == [(1, {"a": 2}), (5, {"b": None})]
    assert [each.line for each in problems] == [2, 5, 7]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("hosts: [{name: a,\n  prot: 1}]\n", "a.yaml:2: prot is not known here"),
        ("hostss: []\n", "a.yaml:1: hostss is not known here; did you mean hosts?"),
        ("hosts:\n  - port: 1\n", "a.yaml:2: name is missing"),
        ("hosts:\n  - name: a\n    port: x\n", "a.yaml:3: port: expected `int`, got `str`"),
    ],
)
def test_a_value_that_does_not_fit_is_named_with_its_line(text: str, shown: str) -> None:
    document = load_yaml(text, "a.yaml")
    with pytest.raises(YamlFileError) as caught:
        document.convert(document.data, HostList)
    assert str(caught.value.problem).startswith(shown)


def test_the_line_on_which_a_text_begins() -> None:
    document = load_yaml("a: |\n  one\n  two\nb: one\n  two\nc: short\n")
    assert document.text_lines == {("a",): 2, ("b",): 4}


def test_what_is_written_is_read_again() -> None:
    data = {"b": "ä\nlines", "a": [1, None, "yes", "2026-01-01"]}
    assert load_yaml(dump_yaml(data)).data == data
    assert list(load_yaml(dump_yaml(data)).data) == ["b", "a"]


def test_a_problem_prints_what_is_known_of_its_position() -> None:
    assert str(Problem("a.yaml", 3, "x is wrong")) == "a.yaml:3: x is wrong"
    assert str(Problem("VARIABLE", 0, "x is wrong")) == "VARIABLE: x is wrong"
    assert str(Problem("", 0, "x is wrong")) == "x is wrong"
    whole = Problem("a.yaml", 3, "x", fatal=False, column=7, suggestion="did you mean y?")
    assert str(whole) == "a.yaml:3:7: note: x; did you mean y?"
    assert whole.to_json() == {
        "file": "a.yaml",
        "line": 3,
        "cause": "x; did you mean y?",
        "fatal": False,
    }


def test_suggestions() -> None:
    assert closest_name("defualt", ["default", "other"]) == "default"
    assert closest_name("defualt", ["other"]) == ""
    assert suggest_name("defualt", ["default", "other"]) == "did you mean default?"
    assert suggest_name("zzz", ["default", "other"]) == "there are: default, other"
    assert suggest_name("zzz", []) == ""
