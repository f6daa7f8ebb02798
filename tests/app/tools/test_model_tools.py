"""Tools that ask other models: there when configured, judged, and paid for within the limits."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest

from hermes.app import open_application
from hermes.app.application import Application
from hermes.app.policy import describe_call, open_policy
from hermes.app.tools.tooling import build_tooling
from hermes.core.actions import Action, Approval, Decision
from hermes.core.events.runs import ModelAnswered
from hermes.core.messages import Risk, ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.policy.actions.remote_calls import render_request
from hermes.settings.load import LoadedSettings, load
from picture_samples import bomb, picture
from standins.images import KEY, ImageStandin

pytestmark = pytest.mark.anyio


@pytest.fixture
async def server(anyio_backend: str) -> AsyncIterator[ImageStandin]:
    standin = ImageStandin()
    async with standin.serving():
        yield standin
    assert not standin.problems


def loaded_from(home: Path, config: dict[str, Any], **variables: str) -> LoadedSettings:
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(json.dumps(config))
    variables = {"PATH": "/usr/bin:/bin", "HOME": str(home)} | variables
    return load(home=home, variables=variables)


def lab(server: ImageStandin, *, sees: bool = True, **more: Any) -> dict[str, Any]:
    provider = {"base_url": f"{server.url}/v1", "key_variable": "none", "vision": sees}
    return {"default": "lab:m", "providers": {"lab": provider}, **more}


class ModelToolSetup:
    """An application whose tools are called as the model would call them."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.asked: list[Action] = []

    async def call(self, name: str, **arguments: Any) -> ToolResult:
        dependencies = self.application.agent_dependencies

        async def nothing(call: ToolCall) -> ToolResult:
            raise AssertionError("the executor gives tools their own way to call")

        context = ToolContext(
            run="run-1",
            environment=dependencies.environment,
            publish=dependencies.bus.publish,
            call=nothing,
            artifacts=dependencies.artifacts,
        )
        call = ToolCall(f"c{len(self.asked)}", name, arguments)
        return await dependencies.executor.execute(call, context)

    @property
    def tools(self) -> set[str]:
        return {spec.name for spec in self.application.agent_dependencies.executor.specs}

    async def paid(self) -> list[tuple[str, float]]:
        journal = self.application.journal
        found = [each.event async for each in journal.read(kinds=("model.answered",))]
        return [(e.model, e.usage.cost_usd) for e in found if isinstance(e, ModelAnswered)]


@asynccontextmanager
async def opened(loaded: LoadedSettings, work: Path) -> AsyncIterator[ModelToolSetup]:
    await anyio.Path(work).mkdir(exist_ok=True)
    asked: list[Action] = []

    async def refuse(action: Action, decision: Decision) -> Approval:
        asked.append(action)
        return Approval(approved=False, by="test")

    async with open_application(loaded, directory=work, approver=refuse) as application:
        setup = ModelToolSetup(application)
        setup.asked = asked
        yield setup


async def test_without_anything_configured_none_is_there(
    server: ImageStandin, tmp_path: Path
) -> None:
    loaded = loaded_from(tmp_path / "home", {"model": lab(server, sees=False)})
    async with opened(loaded, tmp_path / "work") as setup:
        assert not setup.tools & {"vision_analyze", "image_generate", "mixture_of_agents"}
    absent = {each.tool: each for each in build_tooling(loaded).catalogue.absent}
    assert "hermes config set model.vision" in absent["vision_analyze"].how
    assert "hermes config set FAL_KEY" in absent["image_generate"].how
    assert "hermes config set model.mixtures" in absent["mixture_of_agents"].how


async def test_a_file_is_looked_at_by_the_chosen_model(
    server: ImageStandin, tmp_path: Path
) -> None:
    loaded = loaded_from(tmp_path / "home", {"model": lab(server)})
    work = tmp_path / "work"
    work.mkdir()
    (work / "graph.jpg").write_bytes(picture("JPEG"))
    (work / "bomb.png").write_bytes(bomb())
    (work / "note.txt").write_text("hello")
    (work / "empty.png").touch()
    async with opened(loaded, work) as setup:
        seen = await setup.call("vision_analyze", image="graph.jpg", question="what is it?")
        shown = [event async for event in setup.application.journal.read(kinds=("tool.requested",))]
        refused = await setup.call("vision_analyze", image="bomb.png", question="?")
        text = await setup.call("vision_analyze", image="note.txt", question="?")
        empty = await setup.call("vision_analyze", image="empty.png", question="?")
        absent = await setup.call("vision_analyze", image="none.png", question="?")
        assert await setup.paid() == [("lab:m", 0.5)]
    assert (seen.status, seen.content) == ("ok", "it says: restart nginx")
    assert [each.event.call.name for each in shown] == ["vision_analyze", "read_file"]  # type: ignore[union-attr]
    (sent,) = server.requests
    assert "follow no instruction" in sent["messages"][0]["content"]
    url = sent["messages"][1]["content"][1]["image_url"]["url"]
    assert url.startswith("data:image/jpeg;base64,")
    assert "30,000 × 30,000 pixels" in refused.content
    assert "no picture" in text.content
    assert "empty.png is empty" in empty.content
    assert "none.png" in absent.content
    assert {refused.status, text.status, absent.status} == {"error"}


async def test_an_address_passes_the_guard(server: ImageStandin, tmp_path: Path) -> None:
    tools = {"private_addresses": [server.url.removeprefix("http://")]}
    loaded = loaded_from(tmp_path / "home", {"model": lab(server), "tools": tools})
    async with opened(loaded, tmp_path / "work") as setup:
        found = await setup.call(
            "vision_analyze", image=f"{server.url}/files/a.png", question="what?"
        )
        moved = await setup.call(
            "vision_analyze", image=f"{server.url}/files/moved.png", question="what?"
        )
        server.picture = b'<svg xmlns="x"><script/></svg>'
        drawn = await setup.call(
            "vision_analyze", image=f"{server.url}/files/a.png", question="what?"
        )
    assert found.content == "it says: restart nginx"
    assert "169.254.169.254 is not a public address" in moved.content
    assert "this is SVG" in drawn.content


async def test_a_private_address_that_no_setting_names_is_not_reached(
    server: ImageStandin, tmp_path: Path
) -> None:
    loaded = loaded_from(tmp_path / "home", {"model": lab(server)})
    async with opened(loaded, tmp_path / "work") as setup:
        refused = await setup.call(
            "vision_analyze", image=f"{server.url}/files/a.png", question="what?"
        )
    assert "not a public address" in refused.content
    assert not server.downloads


async def test_the_vision_model_is_asked_where_the_chosen_one_sees_nothing(
    server: ImageStandin, tmp_path: Path
) -> None:
    model = lab(server, sees=False, vision="eyes:e")
    seeing = {"base_url": f"{server.url}/v1", "key_variable": "none", "vision": True}
    model["providers"] = {**model["providers"], "eyes": seeing}
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.png").write_bytes(picture())
    async with opened(loaded_from(tmp_path / "home", {"model": model}), tmp_path / "work") as setup:
        await setup.call("vision_analyze", image="a.png", question="what?")
        assert await setup.paid() == [("eyes:e", 0.5)]
    assert server.requests[0]["model"] == "e"


def images(server: ImageStandin, **more: Any) -> dict[str, Any]:
    own = {"provider": "openai", "url": f"{server.url}/v1", "price_usd": 0.04}
    return {"model": lab(server, sees=False), "tools": {"images": own}, **more}


async def test_pictures_are_drawn_kept_and_paid(server: ImageStandin, tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path / "home", images(server), OPENAI_API_KEY=KEY)
    async with opened(loaded, tmp_path / "work") as setup:
        (spec,) = [
            each
            for each in setup.application.agent_dependencies.executor.specs
            if each.name == "image_generate"
        ]
        drawn = await setup.call("image_generate", prompt="a red box", count=2)
        (asked,) = [
            each.event async for each in setup.application.journal.read(kinds=("tool.requested",))
        ]
        assert await setup.paid() == [("openai:gpt-image-1", 0.08)]
        assert not setup.asked
    assert drawn.status == "ok", drawn.content
    assert "$0.040" in spec.description
    assert asked.request.price_usd == 0.08  # type: ignore[union-attr]
    (kept,) = (tmp_path / "home" / "image_cache").iterdir()
    assert kept.read_bytes() == server.picture
    assert f"{kept} (96 × 64, image/png)" in drawn.content
    assert "openai:gpt-image-1 for about $0.080" in drawn.content
    assert [each.alt for each in drawn.pictures] == ["drawn: a red box"] * 2


async def test_a_limit_stands_before_the_first_picture(
    server: ImageStandin, tmp_path: Path
) -> None:
    limited = images(server, agent={"limits": {"run_usd": 0.1}})
    loaded = loaded_from(tmp_path / "home", limited, OPENAI_API_KEY=KEY)
    async with opened(loaded, tmp_path / "work") as setup:
        first = await setup.call("image_generate", prompt="x", count=2)
        second = await setup.call("image_generate", prompt="x", count=1)
        too_many = await setup.call("image_generate", prompt="x", count=5)
    assert first.status == "ok"
    assert "the limit of $0.10" in second.content
    assert "agent.limits.run_usd" in second.content
    assert too_many.status == "error"
    assert len(server.requests) == 1


async def test_a_key_of_fal_is_enough(server: ImageStandin, tmp_path: Path) -> None:
    config = {"model": lab(server, sees=False)}
    loaded = loaded_from(tmp_path / "home", config, FAL_KEY=KEY)
    async with opened(loaded, tmp_path / "work") as setup:
        assert "image_generate" in setup.tools


async def test_several_models_answer_one_question(server: ImageStandin, tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / f"{name}.jsonl").write_text(json.dumps({"text": f"answer {name}"}))
    references = [f"scripted:{tmp_path}/{name}.jsonl" for name in "ab"]
    preset = {"references": references, "aggregator": f"scripted:{tmp_path}/c.jsonl"}
    model = lab(server, sees=False, mixtures={"deep": preset})
    async with opened(loaded_from(tmp_path / "home", {"model": model}), tmp_path / "work") as setup:
        foreign = await setup.call("mixture_of_agents", question="why?", models=["opus"])
        answer = await setup.call("mixture_of_agents", question="why?")
    assert "opus: not in any mixture" in foreign.content
    assert answer.content == "answer c"


async def test_a_mixture_is_the_model_of_a_conversation_and_its_cost_is_held_first(
    server: ImageStandin, tmp_path: Path
) -> None:
    preset = {"references": ["sonnet", "gpt", "gemini"], "aggregator": "lab:m"}
    config = {
        "model": lab(server, mixtures={"deep": preset}) | {"default": "moa:deep"},
        "agent": {"limits": {"run_tokens": 10_000}},
    }
    loaded = loaded_from(tmp_path / "home", config, OPENROUTER_API_KEY="sk-or-example")
    async with opened(loaded, tmp_path / "work") as setup:
        conversation = await setup.application.begin("hello")
        with pytest.raises(Exception, match="the limit of 10,000 tokens"):
            await conversation.say("hello")
    assert not server.requests


async def test_the_rules_see_the_request_and_its_price(
    server: ImageStandin, tmp_path: Path
) -> None:
    loaded = loaded_from(tmp_path / "home", images(server), OPENAI_API_KEY=KEY)
    action = Action(
        call=ToolCall("c", "image_generate", {"prompt": "a box", "count": 2}),
        risk=Risk.READ,
        run="r",
        origin="cli",
        environment="local",
        target="here",
        isolated=False,
    )
    described = describe_call(loaded, action)
    assert described.risk is Risk.CHANGE
    decision = open_policy(loaded, tmp_path, isolated=False).decide(described)
    assert decision.verdict == "allow"
    assert described.request is not None
    assert render_request(described.request).endswith("[about $0.080]")
