"""Episodes through the real `verifiers` library; `make test-training` installs it."""

from collections.abc import Sequence
from typing import Any

import pytest
from chat_server import chat_server, writes

from hermes.environments.sandboxing import support
from hermes.gym.scenario import find_scenario

vf = pytest.importorskip("verifiers", reason="`make test-training` installs it")
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
NAME = "config-typo-after-edit"


def fixing(messages: Sequence[dict[str, Any]]) -> str:
    """Knows the story by its alert; says the reference fix line by line, then concludes."""
    turn = sum(message["role"] == "assistant" for message in messages)
    told = messages[1]["content"]
    spec = next(s for s in map(find_scenario(NAME).draw_spec, SEEDS) if s.alert.text in told)
    commands = ["journalctl -n 30", *spec.reference]
    if turn < len(commands):
        return writes("terminal", command=commands[turn])
    return writes("conclude", answer="fix", component=spec.fault.component[0])


SEEDS: list[int] = []


async def played(lines: Any, *, turns: int = 8, episodes: int = 2) -> tuple[Any, list[str]]:
    from hermes.gym.training.verifiers import load_environment  # noqa: PLC0415 - see above

    env = load_environment(NAME, episodes=episodes, eval_episodes=1, turns=turns, window=0.1)
    rows = env.get_dataset()
    SEEDS[:] = [row["info"]["seed"] for row in rows]
    with chat_server(lines) as (address, complaints):
        config = vf.ClientConfig(api_base_url=address, api_key_var="NOT_SET", max_retries=0)
        results = await env.generate(
            rows, client=config, model="m", state_columns=["drilled"], max_concurrent=2
        )
    return results, complaints


async def test_one_that_fixes_the_host_is_paid_by_the_rubric() -> None:
    results, complaints = await played(fixing)
    assert complaints == []
    for output in results["outputs"]:
        assert output["drilled"]["resolved"] is True, output["drilled"]
        assert output["reward"] == output["drilled"]["reward"]["total"] >= 0.5
        assert output["metrics"]["resolution"] == 0.5


async def test_one_that_only_talks_is_not_and_its_host_is_judged_all_the_same() -> None:
    results, complaints = await played(lambda messages: "All is well.", episodes=1)
    (output,) = results["outputs"]
    assert complaints == []
    assert output["drilled"]["resolved"] is False
    assert output["reward"] <= 0.05


async def test_calls_of_the_last_turn_are_carried_out_too() -> None:
    def at_once(messages: Sequence[dict[str, Any]]) -> str:
        spec = next(
            s
            for s in map(find_scenario(NAME).draw_spec, SEEDS)
            if s.alert.text in messages[1]["content"]
        )
        return "\n".join(writes("terminal", command=command) for command in spec.reference)

    results, _ = await played(at_once, turns=1, episodes=1)
    assert results["outputs"][0]["drilled"]["resolved"] is True


async def test_evaluation_has_other_wordings_and_prompts_name_the_tools() -> None:
    from hermes.gym.training.verifiers import load_environment  # noqa: PLC0415 - see above

    env = load_environment(NAME, episodes=3, eval_episodes=3)
    train, kept = env.get_dataset(), env.get_eval_dataset()
    assert {row["info"]["split"] for row in kept} == {"held-out"}
    assert len(train) == len(kept) == 3
    assert '"name":"conclude"' in train[0]["prompt"][0]["content"]
