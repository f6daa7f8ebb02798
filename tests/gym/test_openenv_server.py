"""Episodes for trainers: drawn by severity, played over HTTP, scored once, gone without a trace."""

import json
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec
import pytest

from hermes.core.errors import SettingsError
from hermes.environments.sandboxing import support
from hermes.gym.drill import DrillTerms
from hermes.gym.episodes.responder_context import sandbox_rules
from hermes.gym.scenario import Scenario, find_scenario
from hermes.gym.training.external_episodes import (
    IncidentSampler,
    SampledIncident,
    open_external_episode,
)
from hermes.gym.training.openenv_server import OpenEnvOptions, serve_openenv

pytestmark = pytest.mark.anyio
boxes = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)
TYPO, SEED = "config-typo-after-edit", 4
TERMS = DrillTerms(window_s=0.0, responder_timeout_s=120.0, symptom_timeout_s=3.0)
ADDRESS = "http://127.0.0.1"


def graded(name: str, severity: str) -> Scenario:
    """A scenario whose alert is always this grave."""
    whole = find_scenario(TYPO)

    def draw(rng: Any) -> Any:
        spec = whole.draw(rng)
        alert = type(spec.alert)(title="t", text="t", severity=severity)
        return msgspec.structs.replace(spec, alert=alert)

    return Scenario(name=name, group="classic", summary="", draw=draw)


def test_what_hurts_more_is_drawn_more_often_and_the_same_again() -> None:
    pool = [graded(severity, severity) for severity in ("P0", "P1", "P2", "P3")]
    drawn = [each.scenario.name for each in _draws(IncidentSampler(pool, seed=1), 3000)]
    share = {name: count / 3000 * 7.5 for name, count in Counter(drawn).items()}
    assert share == pytest.approx({"P0": 3, "P1": 2, "P2": 1.5, "P3": 1}, abs=0.3)
    again = IncidentSampler(pool, seed=1)
    assert [each.scenario.name for each in _draws(again, 50)] == drawn[:50]
    assert again.draw_by_seed(7).seed == again.draw_by_seed(7).seed != again.draw_by_seed(8).seed


def test_what_is_kept_for_evaluation_is_not_trained_on() -> None:
    kept = Scenario(
        name="k", group="classic", summary="", draw=find_scenario(TYPO).draw, held_out=True
    )
    with pytest.raises(SettingsError, match="no scenario"):
        IncidentSampler([kept])
    assert IncidentSampler([kept], split="held-out").draw().scenario.name == "k"


def _draws(sampler: IncidentSampler, count: int) -> list[SampledIncident]:
    return [sampler.draw() for _ in range(count)]


@boxes
async def test_what_still_runs_ends_with_the_episode() -> None:
    drawn = IncidentSampler([find_scenario(TYPO)]).draw_by_name(TYPO, SEED)
    async with open_external_episode(drawn, sandbox_rules(), TERMS) as episode:
        taken = await episode.step("terminal", {"command": "nohup sleep 86397 >/dev/null 2>&1 &"})
        assert taken.status == "ok"
        await _until(sleeps=True)
        result = await episode.finish()
        assert result.reward.total <= 0.05
        assert (await episode.step("terminal", {"command": "true"})).reward == result.reward.total
    await _until(sleeps=False)


async def _until(*, sleeps: bool) -> None:
    """A process is begun and ended by others: that takes a moment on a busy machine."""
    for _ in range(6000):
        if _sleeping() == sleeps:
            return
        await anyio.sleep(0.02)
    pytest.fail(f"it {'never began' if sleeps else 'did not end'}")


def _sleeping() -> bool:
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if file.read_bytes() == b"sleep\x0086397\x00":
                return True
        except OSError:
            continue
    return False


@asynccontextmanager
async def served(**options: Any) -> AsyncGenerator[int, None]:
    openenv_options = OpenEnvOptions(terms=TERMS, **options)
    async with anyio.create_task_group() as group:
        port: int = await group.start(
            serve_openenv, IncidentSampler([find_scenario(TYPO)]), sandbox_rules(), openenv_options
        )
        try:
            yield port
        finally:
            group.cancel_scope.cancel()


async def ask(port: int, path: str, body: object = None, **headers: str) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()

    def send() -> tuple[int, Any]:
        request = urllib.request.Request(f"{ADDRESS}:{port}{path}", data, headers)
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    return await anyio.to_thread.run_sync(send)


def does(command: str) -> dict[str, Any]:
    return {"action": {"command": command}}


@boxes
async def test_an_episode_is_played_and_mended_over_http() -> None:
    spec = find_scenario(TYPO).draw_spec(SEED)
    look = f"journalctl -u {spec.alert.labels['service']} -n 20"
    async with served() as port:
        assert (await ask(port, "/step", does("true")))[0] == 409
        _, begun = await ask(port, "/reset", {"scenario": TYPO, "seed": SEED})
        assert begun["done"] is False
        assert spec.alert.title in begun["observation"]["task"]
        names = [each["function"]["name"] for each in begun["observation"]["tools"]]
        assert names == ["terminal", "conclude"]
        for command in (look, *spec.reference):
            status, taken = await ask(port, "/step", does(command))
            assert (status, taken["reward"], taken["done"]) == (200, None, False)
        _, state = await ask(port, "/state")
        assert state["step_count"] == 1 + len(spec.reference)
        fault = spec.fault
        arguments = {
            "answer": "fix",
            "component": fault.component[0],
            "mechanism": fault.mechanism[0],
            "value": fault.value[0],
            "evidence": [look],
        }
        action = {"tool": "conclude", "arguments": arguments}
        _, taken = await ask(port, "/step", {"action": action})
        assert taken["done"] is True
        assert taken["observation"]["metadata"]["resolved"] is True
        assert taken["reward"] >= 0.5


@boxes
async def test_episodes_are_separate_and_their_number_is_limited() -> None:
    async with served(max_sessions=2, max_steps=1) as port:
        for name in ("a", "b"):
            assert (await ask(port, "/reset", {"episode_id": name, "scenario": TYPO}))[0] == 200
        assert (await ask(port, "/reset", {"episode_id": "c"}))[0] == 503
        status, taken = await ask(port, "/step", {"episode_id": "a", **does("touch /srv/mine")})
        assert (status, taken["done"]) == (200, True), "its only step is used up"
        assert taken["reward"] <= 0.05
        _, other = await ask(port, "/step", {"episode_id": "b", **does("ls /root")})
        assert "mine" not in other["observation"]["text"]
        assert (await ask(port, "/close", {"episode_id": "a"}))[0] == 200
        assert (await ask(port, "/reset", {"episode_id": "c"}))[0] == 200


async def test_an_invalid_request_is_refused_and_the_server_goes_on() -> None:
    async with served(token="word") as port:
        bearer = {"Authorization": "Bearer word"}
        assert (await ask(port, "/health"))[0] == 401
        assert (await ask(port, "/health", Origin="http://evil.example", **bearer))[0] == 403
        assert (await ask(port, "/nowhere", **bearer))[0] == 404
        assert (await ask(port, "/reset", [1], **bearer))[0] == 422
        assert (await ask(port, "/reset", {"scenario": "none-such"}, **bearer))[0] == 422
        assert (await ask(port, "/reset", {"seed": "x"}, **bearer))[0] == 422
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            await stream.send(b"hello\r\n\r\n")
            assert b"400" in await stream.receive()
        async with await anyio.connect_tcp("127.0.0.1", port) as stream:
            head = b"POST /reset HTTP/1.1\r\nhost: x\r\nauthorization: Bearer word\r\n"
            await stream.send(head + b"content-length: 9999999999\r\n\r\n")
            assert b"413" in await stream.receive()
        assert (await ask(port, "/health", **bearer))[1]["status"] == "healthy"


async def test_strangers_are_served_only_with_a_token() -> None:
    with pytest.raises(SettingsError, match="token"):
        await serve_openenv(
            IncidentSampler([find_scenario(TYPO)]),
            sandbox_rules(),
            OpenEnvOptions(),
            host="0.0.0.0",
        )
