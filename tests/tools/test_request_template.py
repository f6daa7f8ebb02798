"""One value is one segment, parameter or scalar, whatever it contains."""

from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.errors import ToolError
from hermes.tools.answer_shapes import MAX_SHOWN_CHARS, ShapeForm, shape_answer
from hermes.tools.request_template import (
    RequestForm,
    check_template,
    read_time,
    render_request_template,
)

NOW = datetime(2026, 3, 2, 12, tzinfo=UTC)
HOUR_S = 3600


def form(**more: Any) -> RequestForm:
    return RequestForm(system="s", **{"path": "/a", **more})


def render(made: RequestForm, **arguments: Any) -> Any:
    return render_request_template(made, arguments, NOW)


@given(st.text(), st.text())
def test_a_value_never_becomes_another_segment_parameter_or_key(one: str, other: str) -> None:
    made = form(
        method="POST",
        path="/x/{{one}}/y",
        query={"q": "{{other}}", "fixed": "1"},
        json={"k": "{{other}}"},
    )
    try:
        sent = render(made, one=one, other=other)
    except ToolError:
        return
    parts = urlsplit(sent.path)
    assert [unquote(each) for each in parts.path.split("/")] == ["", "x", one, "y"]
    pairs = parse_qsl(parts.query, keep_blank_values=True)
    assert pairs == [("q", other), ("fixed", "1")]
    assert msgspec.json.decode(sent.body) == {"k": other}


@pytest.mark.parametrize("value", ["", ".", "..", "a\nb", "a\0b"])
def test_a_value_that_changes_the_path_is_refused(value: str) -> None:
    with pytest.raises(ToolError):
        render(form(path="/x/{{v}}"), v=value)


@pytest.mark.parametrize("value", ["a//b", "../b", "a/..", "/a", "a/"])
def test_pieces_of_a_path_are_checked_one_by_one(value: str) -> None:
    assert render(form(path="/x/{{v/}}"), v="a b/c").path == "/x/a%20b/c"
    with pytest.raises(ToolError):
        render(form(path="/x/{{v/}}"), v=value)


def test_what_is_not_given_is_left_out() -> None:
    made = form(query={"a": "{{a}}", "b": "x{{a}}", "list": "{{list}}", "flag": "{{flag}}"})
    assert render(made, a=None, list=["1", "2"], flag=True).path == "/a?list=1&list=2&flag=true"
    other = form(path="/label/{{label}}", without={"label": "/labels"})
    assert render(other, label=None).path == "/labels"


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        ({"path": "a"}, "begins with /"),
        ({"path": "/a?b=c"}, "has no query"),
        ({"form": {"a": "b"}}, "has no body"),
        ({"query": {"a": "{{b|shell}}"}}, "there are the filters"),
        ({"query": {"a": "{{b/}}"}}, "only for the path"),
        ({"reads": True, "effect": "write", "method": "POST"}, "exclude each other"),
    ],
)
def test_a_broken_template_is_explained(broken: dict[str, Any], words: str) -> None:
    assert words in check_template(form(**broken))


def test_times_are_relative_absolute_or_refused() -> None:
    now = NOW.timestamp()
    assert read_time("t", "now", NOW) == now
    assert read_time("t", "now-1h", NOW) == now - HOUR_S
    assert read_time("t", "2026-03-02T11:00:00Z", NOW) == now - HOUR_S
    assert read_time("t", "17", NOW) == 17
    for wrong in ("yesterday", "now-x", "2026-13-01", "now+1h"):
        with pytest.raises(ToolError, match="t: "):
            read_time("t", wrong, NOW)


def test_an_end_before_a_start_is_refused() -> None:
    made = form(query={"s": "{{start|time}}", "e": "{{end|time}}"}, before=("start", "end"))
    with pytest.raises(ToolError, match="start must be before end"):
        render(made, start="now", end="now-1h")


def test_the_step_follows_from_the_points() -> None:
    made = form(query={"step": "{{step|step}}"})
    assert render(made, start="now-1h", end="now", step=None, max_points=60).path == "/a?step=60"
    with pytest.raises(ToolError, match="at least 60s"):
        render(made, start="now-1h", end="now", step="1s", max_points=60)


@pytest.mark.parametrize("query", ["", "{}", "|= `x`", '{app=""', "{app}", "error"])
def test_logs_without_a_matcher_are_refused(query: str) -> None:
    with pytest.raises(ToolError, match="needs a selector"):
        render(form(query={"q": "{{query|selector}}"}), query=query)


def test_only_the_selector_is_sized() -> None:
    query = '{app="a{b}", host=~`x.*`} |= "error" | json'
    sent = render(form(query={"q": "{{query|selector}}"}), query=query).path
    assert dict(parse_qsl(urlsplit(sent).query))["q"] == '{app="a{b}", host=~`x.*`}'


@pytest.mark.parametrize("matchers", [[], ["x"], ["a="], ['a=""'], ["a=~.*"], ["a=~.+", "b=~.*"]])
def test_a_silence_of_everything_is_refused(matchers: list[str]) -> None:
    with pytest.raises(ToolError):
        render(form(method="POST", json={"m": "{{m|matchers}}"}), m=matchers)


def test_matchers_are_taken_apart() -> None:
    sent = render(form(method="POST", json={"m": "{{m|matchers}}"}), m=["a=b", 'c!~"d.*"'])
    assert [each["value"] for each in msgspec.json.decode(sent.body)["m"]] == ["b", "d.*"]


@pytest.mark.parametrize(
    ("data", "shape"),
    [
        ([{"metric": {"n": str(n)}, "value": [1, "1"]} for n in range(20_000)], "series"),
        ([{"stream": {}, "values": [["1", "x" * 1_000_000]]}], "lines"),
        ([{"a": "b" * 1000}] * 500, "table"),
        (["v" * 100] * 5000, "values"),
        ({"k": "v" * 100_000}, "document"),
        ("one line\n" * 100_000, "text"),
    ],
)
def test_no_answer_is_longer_than_its_reader_takes(data: Any, shape: str) -> None:
    made = msgspec.convert({"as": shape, "columns": {"a": "a"}}, ShapeForm)
    shaped = shape_answer(data, made)
    assert len(shaped.text) <= MAX_SHOWN_CHARS + 100
    assert not shaped.complete


def test_series_are_numbers_with_a_trend_and_the_labels_that_differ() -> None:
    points = [[n * 60, str(n)] for n in range(10)]
    steady = [[n * 60, "5"] for n in range(10)]
    data = [
        {"metric": {"job": "shop", "host": "a"}, "values": points},
        {"metric": {"job": "shop", "host": "b"}, "values": [*steady, [600, "NaN"]]},
    ]
    text = shape_answer(data, msgspec.convert({"as": "series"}, ShapeForm)).text
    assert "all: job=shop" in text
    assert "host=a: last 9, min 0, max 9, mean 4.5, rising (10 points" in text
    assert "host=b: last 5, min 5, max 5, mean 5, steady" in text
