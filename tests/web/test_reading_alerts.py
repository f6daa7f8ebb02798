"""What senders send, from the well-formed to the hostile."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes.core.events import decode_event, encode_event
from hermes.core.foreign_text import MAX_LABELS
from hermes.web import alerts
from hermes.web.alerts import AlertPayloadInvalid


def alert(**more: Any) -> dict[str, Any]:
    whole = {
        "status": "firing",
        "labels": {"alertname": "DiskFull", "service": "db", "severity": "critical"},
        "annotations": {"summary": "disk of db is full", "description": "98 %\nof /var"},
        "startsAt": "2026-01-05T10:00:00.123456789Z",
        "endsAt": "0001-01-01T00:00:00Z",
        "generatorURL": "http://p/graph",
        "fingerprint": "00ff00ff00ff00ff",
    }
    return whole | more


def payload(*alerts: Any, **more: Any) -> bytes:
    whole = {"version": "4", "groupKey": "{}", "status": "firing", "alerts": alerts}
    return json.dumps(whole | more).encode()


def test_an_alert_is_read_as_it_was_meant() -> None:
    (read,) = alerts.parse_alertmanager(payload(alert())).alerts
    assert read.run == "watch" and read.source == "alertmanager"
    assert read.title == "disk of db is full"
    assert read.text == "98 %\nof /var\nsource: http://p/graph"
    assert read.fingerprint == "00ff00ff00ff00ff"
    assert dict(read.labels)["service"] == "db"
    assert read.severity == "critical" and not read.resolved
    assert read.since == datetime(2026, 1, 5, 10, 0, 0, 123457, tzinfo=UTC)


def test_each_alert_says_itself_whether_it_is_over() -> None:
    mixed = payload(alert(), alert(status="resolved"), alert(status=None), status="resolved")
    assert [each.resolved for each in alerts.parse_alertmanager(mixed).alerts] == [
        False,
        True,
        True,
    ]


def test_one_bad_alert_among_five_does_not_take_the_others_along() -> None:
    body = payload(alert(), alert(), alert(labels=["no", "map"]), alert(), alert())
    read = alerts.parse_alertmanager(body)
    assert len(read.alerts) == 4
    (why,) = read.rejected
    assert why.startswith("alerts[2]:") and "object" in why and "labels" in why


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not an Alertmanager payload"),
        (b"[]", "not an Alertmanager payload"),
        (b'{"version": "4"', "not an Alertmanager payload"),
        (b'{"version": "4"}', "alerts"),
        (b"\xff\xfe", "not an Alertmanager payload"),
        (b"[" * 100_000, "not an Alertmanager payload"),
        (payload(alert(), version="3"), "only 4 is understood, got 3"),
        (payload(alert(), version=None), "only 4 is understood, got nothing"),
        (payload("x", 1), "no alert could be read: alerts[0]"),
    ],
)
def test_what_cannot_be_read_is_refused_with_a_reason(body: bytes, why: str) -> None:
    with pytest.raises(AlertPayloadInvalid) as refused:
        alerts.parse_alertmanager(body)
    assert why in str(refused.value)


def test_what_is_missing_is_no_reason_to_lose_an_alert() -> None:
    bare = {"labels": {"alertname": "Odd", "code": 500, "up": False, "none": None}}
    first, second = alerts.parse_alertmanager(payload(bare, {"labels": {}}, status="firing")).alerts
    assert (first.title, first.since) == ("Odd", None)
    assert dict(first.labels) == {"alertname": "Odd", "code": "500", "none": "", "up": "false"}
    assert first.fingerprint and second.fingerprint != first.fingerprint
    assert second.title == "an alert without a name"
    (again,) = alerts.parse_alertmanager(payload(bare)).alerts
    assert again.fingerprint == first.fingerprint


@pytest.mark.parametrize("when", ["", "yesterday", "0001-01-01T00:00:00Z", 17, None])
def test_a_date_that_is_none_is_left_out(when: Any) -> None:
    (read,) = alerts.parse_alertmanager(payload(alert(startsAt=when))).alerts
    assert read.since is None


def test_nothing_begins_in_the_future() -> None:
    (read,) = alerts.parse_alertmanager(payload(alert(startsAt="2999-01-01T00:00:00Z"))).alerts
    assert read.since == read.at


def test_what_is_too_long_is_cut_and_what_cannot_be_seen_is_gone() -> None:
    many = {f"l{number:04d}": "v" * 5000 for number in range(500)} | {"service": "db"}
    hostile = {"summary": "a\x1b[2J\u202eb\x00" + "t" * 9000, "description": "d\r\n" * 9000}
    (read,) = alerts.parse_alertmanager(payload(alert(labels=many, annotations=hostile))).alerts
    assert len(read.title) <= 200 and len(read.text) <= 4000
    assert read.title.startswith("a [2J b t")
    assert len(read.labels) == MAX_LABELS and dict(read.labels)["service"] == "db"
    assert all(len(value) <= 200 for _, value in read.labels)
    assert "\r" not in read.text


def test_the_plain_form_is_read() -> None:
    body = {"title": "t", "text": "x", "labels": {"a": 1}, "severity": "high", "resolved": True}
    read = alerts.parse_generic_alert(json.dumps(body).encode())
    assert (read.title, read.text, read.severity, read.resolved) == ("t", "x", "high", True)
    assert read.source == "webhook" and read.labels == (("a", "1"),)
    body["resolved"] = False
    assert alerts.parse_generic_alert(json.dumps(body).encode()).fingerprint == read.fingerprint
    body["fingerprint"] = "mine"
    assert alerts.parse_generic_alert(json.dumps(body).encode()).fingerprint == "mine"


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"{}", "title"),
        (b'{"title": " \\u0000 "}', "empty"),
        (b'{"title": 1}', "title"),
        (b"x", "not an alert"),
    ],
)
def test_a_plain_form_without_a_title_is_refused(body: bytes, why: str) -> None:
    with pytest.raises(AlertPayloadInvalid, match=why):
        alerts.parse_generic_alert(body)


_json = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
_texts = st.text(st.characters(exclude_categories=())) | _json
_alert = st.fixed_dictionaries(
    {"labels": st.dictionaries(st.text(), _texts)},
    optional={
        name: _texts | st.dictionaries(st.text(), _texts)
        for name in ("status", "annotations", "startsAt", "fingerprint", "generatorURL")
    },
)


@given(st.lists(_alert | _json, min_size=1, max_size=4))
def test_whatever_comes_is_read_or_refused_and_can_be_kept(sent: list[Any]) -> None:
    try:
        read = alerts.parse_alertmanager(payload(*sent))
    except AlertPayloadInvalid:
        return
    assert len(read.alerts) + len(read.rejected) == len(sent)
    for each in read.alerts:
        assert decode_event(each.kind, encode_event(each)) == each
