"""Pictures are drawn by three providers; each is a strict stand-in, not the real service."""

from collections.abc import AsyncIterator

import pytest

from hermes.core.errors import ToolError
from hermes.integrations.pictures.providers import PROVIDERS, ImageEndpoint
from standins.images import KEY, ImageStandin

pytestmark = pytest.mark.anyio
PLACES = {
    "openai": ("/v1", "gpt-image-1"),
    "fal": ("", "fal-ai/flux/dev"),
    "gemini": ("", "gemini-2.5-flash-image"),
}


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[ImageStandin]:
    standin = ImageStandin()
    async with standin.serving():
        yield standin
    assert not standin.problems


def endpoint(server: ImageStandin, name: str) -> ImageEndpoint:
    path, model = PLACES[name]
    return ImageEndpoint(
        url=server.url + path, model=model, key=KEY, key_variable="FAL_KEY", poll_pause_s=0.001
    )


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize("size", ["square", "landscape", "portrait"])
async def test_each_provider_draws(server: ImageStandin, name: str, size: str) -> None:
    drawn = await PROVIDERS[name](endpoint(server, name)).draw("a red box", size, 2)
    assert drawn == [server.picture] * 2
    assert "a red box" in str(server.requests[0])


async def test_fal_is_asked_until_its_queue_is_done(server: ImageStandin) -> None:
    server.busy_polls = 4
    await PROVIDERS["fal"](endpoint(server, "fal")).draw("x", "square", 1)
    assert server.polls == 5


async def test_a_key_is_not_sent_where_a_queue_points_to(server: ImageStandin) -> None:
    server.moved_to = "http://elsewhere.example"
    with pytest.raises(ToolError, match=r"http://elsewhere.example: the key is not sent there"):
        await PROVIDERS["fal"](endpoint(server, "fal")).draw("x", "square", 1)


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize(
    ("status", "words"),
    [(401, "is the key FAL_KEY right"), (402, "must be paid"), (429, "try later")],
)
async def test_a_refusal_says_what_to_do_and_hides_the_key(
    server: ImageStandin, name: str, status: int, words: str
) -> None:
    server.status = status
    with pytest.raises(ToolError, match=words) as caught:
        await PROVIDERS[name](endpoint(server, name)).draw("x", "square", 1)
    assert KEY not in str(caught.value)


@pytest.mark.parametrize("name", PLACES)
@pytest.mark.parametrize(
    "answer",
    [
        {},
        [],
        "x",
        {"data": [], "images": [], "candidates": []},
        {"data": [{"b64_json": "%%%"}], "candidates": [{"content": {"parts": ["x"]}}]},
        {"status_url": 5, "data": {"a": 1}, "candidates": "no"},
    ],
)
async def test_a_wrong_answer_is_an_error_of_the_tool(
    server: ImageStandin, name: str, answer: object
) -> None:
    server.answer = answer
    with pytest.raises(ToolError):
        await PROVIDERS[name](endpoint(server, name)).draw("x", "square", 1)
