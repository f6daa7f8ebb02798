"""Each kind of refusal, in the words that providers use for it."""

import json
from datetime import UTC, datetime

import pytest

from hermes.core.errors import (
    ContextTooLong,
    InvalidApiKey,
    ModelError,
    ModelTimedOut,
    OutOfCredit,
    ProviderOverloaded,
    RateLimited,
    RequestRejected,
)
from hermes.models.provider_errors import (
    ProviderEndpoint,
    error_from_payload,
    error_from_response,
    requested_retry_delay,
)

PEER = ProviderEndpoint(
    title="Lab",
    reference="openai:gpt-5.4-mimi",
    url="https://lab/v1",
    key_variable="LAB_KEY",
    secrets=("hunter2hunter2",),
)
TOO_LONG = [
    (400, "This model's maximum context length is 4096 tokens. However, you requested 5000"),
    (400, "This endpoint's maximum context length is 128000 tokens. However, you requested"),
    (400, "prompt is too long: 208310 tokens > 200000 maximum"),
    (400, "the request exceeds the available context size, try increasing it"),
    (400, "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576)"),
    (413, "Request exceeds the maximum size"),
    (500, "input length exceeds maximum context length"),
    (400, "Input is too long for requested model."),
    (422, "Please reduce the length of the messages or completion"),
    (400, "Invalid request: Your request exceeded model token limit: 8192"),
]


def body(message: str, **more: object) -> bytes:
    return json.dumps({"error": {"message": message, **more}}).encode()


@pytest.mark.parametrize(("status", "message"), TOO_LONG)
def test_a_conversation_that_does_not_fit_is_known_in_every_spelling(
    status: int, message: str
) -> None:
    assert type(error_from_response(PEER, status, {}, body(message))) is ContextTooLong


@pytest.mark.parametrize(
    ("status", "said", "kind"),
    [
        (401, body("who are you?"), InvalidApiKey),
        (403, body("forbidden"), InvalidApiKey),
        (403, body("flagged by moderation"), RequestRejected),
        (400, body("API key not valid. Please pass a valid API key."), InvalidApiKey),
        (402, body("Insufficient credits"), OutOfCredit),
        (429, body("You exceeded your current quota", code="insufficient_quota"), OutOfCredit),
        (400, body("Your credit balance is too low to access the API"), OutOfCredit),
        (429, body("Rate limit reached for tokens: too many tokens per minute"), RateLimited),
        (500, body("boom"), ProviderOverloaded),
        (503, b"<html>503</html>", ProviderOverloaded),
        (529, body("Overloaded", type="overloaded_error"), ProviderOverloaded),
        (408, b"", ModelTimedOut),
        (400, body("context_length_exceeded", code="context_length_exceeded"), ContextTooLong),
        (400, body("tools.0.name: invalid key 'x'; the tool is unavailable"), RequestRejected),
        (404, b"", RequestRejected),
        (418, b"\xff\xfe", RequestRejected),
        (400, b'{"detail": [{"msg": "field required"}]}', RequestRejected),
        (301, b"", RequestRejected),
    ],
)
def test_each_refusal_has_its_kind(status: int, said: bytes, kind: type[ModelError]) -> None:
    assert type(error_from_response(PEER, status, {}, said)) is kind


def test_a_wrong_model_name_is_answered_with_the_nearest_right_one() -> None:
    told = str(error_from_response(PEER, 404, {}, body("The model `gpt-5.4-mimi` does not exist")))
    assert "openai:gpt-5.4-mini?" in told
    assert "https://lab/v1" in told


def test_what_to_do_is_part_of_the_message() -> None:
    assert "LAB_KEY" in str(error_from_response(PEER, 401, {}, b""))
    assert "hermes setup" in str(error_from_response(PEER, 401, {}, b""))
    assert "web page" in str(error_from_response(PEER, 404, {}, b"<!doctype html><p>nginx"))


def test_keys_are_cut_out_wherever_they_are_repeated() -> None:
    told = str(
        error_from_response(PEER, 400, {}, body("bad: hunter2hunter2 and Bearer abcdefgh.ijkl"))
    )
    assert "hunter2" not in told
    assert "abcdefgh" not in told


def test_openrouter_tells_the_words_and_the_wait_of_the_one_behind_it() -> None:
    later = str(int(datetime.now(UTC).timestamp() * 1000) + 20_000)
    told = error_from_payload(
        PEER,
        {
            "code": 429,
            "message": "Provider returned error",
            "metadata": {"raw": "slow down", "headers": {"X-RateLimit-Reset": later}},
        },
    )
    assert isinstance(told, RateLimited)
    assert "slow down" in str(told)
    assert told.wait == pytest.approx(20, abs=5)


NOW = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7),
        ({"retry-after": "1.5"}, 1.5),
        ({"retry-after": "-3"}, 0),
        ({"retry-after": "Sun, 15 Nov 2026 12:00:30 GMT"}, 30),
        ({"retry-after": "Sun, 15 Nov 2020 12:00:30 GMT"}, 0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-reset-tokens": "6m0.5s"}, 360.5),
        ({"x-ratelimit-reset": str(NOW.timestamp() + 12)}, 12),
        ({"x-ratelimit-reset": str(int(NOW.timestamp() * 1000) + 1500)}, 1.5),
        ({"x-ratelimit-reset": "2026-11-15T12:01:00Z"}, 60),
        ({"retry-after": "soon"}, None),
    ],
)
def test_the_wait_is_understood_however_it_is_said(
    headers: dict[str, str], wait: float | None
) -> None:
    assert requested_retry_delay(headers, NOW) == (None if wait is None else pytest.approx(wait))
