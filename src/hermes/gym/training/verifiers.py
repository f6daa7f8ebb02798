"""Offers the incidents as an environment of `verifiers`: multi-turn, with our reward as rubric.

    from hermes.gym.training.verifiers import load_environment
    env = load_environment(light=True)

An optional extra, for the library's 0.1 line (0.2 and later have another interface).
"""

from contextlib import AsyncExitStack
from typing import Any

import msgspec
import verifiers as vf
from datasets import Dataset

from hermes.core.errors import EnvironmentFailed
from hermes.gym.drill import DrillTerms
from hermes.gym.episodes.readiness import select_scenarios
from hermes.gym.episodes.responder_context import sandbox_rules
from hermes.gym.random_source import Split
from hermes.gym.training.external_episodes import (
    ExternalEpisode,
    IncidentSampler,
    first_messages,
    open_external_episode,
    parse_tool_calls,
    render_task,
    run_tool_call,
    tool_specs,
)

REWARD_PARTS = ("resolution", "root_cause", "report", "skill", "speed", "efficiency")


class VerifiersIncidentEnv(vf.MultiTurnEnv):  # type: ignore[misc]  # not installed where types are checked
    """Calls are text, as in `run_rollout`: no server needs to parse them."""

    def __init__(
        self, samplers: dict[Split, IncidentSampler], terms: DrillTerms, **options: Any
    ) -> None:
        super().__init__(**options)
        self._samplers, self._terms, self._rules = samplers, terms, sandbox_rules()
        self._open: dict[str, tuple[ExternalEpisode, AsyncExitStack]] = {}
        self._answered: dict[str, int] = {}

    async def setup_state(self, state: Any) -> None:
        """A host that could not be built or broken raises the library's own error: no score."""
        info, stack = state["info"], AsyncExitStack()
        drawn = self._samplers[info["split"]].draw_by_name(info["scenario"], info["seed"])
        try:
            episode = await stack.enter_async_context(
                open_external_episode(drawn, self._rules, self._terms)
            )
        except EnvironmentFailed as error:
            raise vf.InfraError(str(error)) from error
        self._open[state["trajectory_id"]] = episode, stack

    async def env_response(self, messages: Any, state: Any, **more: Any) -> list[dict[str, str]]:
        episode, _ = self._open[state["trajectory_id"]]
        self._answered[state["trajectory_id"]] = len(state["trajectory"])
        calls = parse_tool_calls(_message_text(messages[-1]))
        responses = [await run_tool_call(episode, call) for call in calls if not episode.done]
        reply = [{"role": "user", "content": "\n".join(responses)}] if responses else []
        if not calls or episode.done:
            state["final_env_response"] = reply
        return reply

    @vf.cleanup  # type: ignore[untyped-decorator]
    async def judge(self, state: Any) -> None:
        """Scores the current state and closes the host.

        Calls of the last turn are executed first: the library does not pass them on.
        """
        held = self._open.pop(state["trajectory_id"], None)
        answered = self._answered.pop(state["trajectory_id"], 0)
        if held is None:
            return
        episode, stack = held
        async with stack:
            turns = state["trajectory"]
            if len(turns) > answered and turns:
                for call in parse_tool_calls(_message_text(turns[-1]["completion"][-1])):
                    if not episode.done:
                        await run_tool_call(episode, call)
            state["drilled"] = msgspec.to_builtins(await episode.finish())


def load_environment(
    scenarios: str = "",
    *,
    light: bool = True,
    seed: int = 0,
    episodes: int = 200,
    eval_episodes: int = 50,
    turns: int = 20,
    window: float = 2.0,
    episode_seconds: float = 300.0,
) -> VerifiersIncidentEnv:
    """`scenarios`: names with commas; none for all that can be played here.

    Severe incidents are drawn more often. Evaluation has wordings that training never sees.
    """
    pool = select_scenarios(scenarios, light=light)
    samplers: dict[Split, IncidentSampler] = {
        split: IncidentSampler(pool, seed=seed, split=split) for split in ("train", "held-out")
    }
    return VerifiersIncidentEnv(
        samplers,
        DrillTerms(window_s=window, responder_timeout_s=episode_seconds),
        dataset=_dataset(samplers["train"], episodes),
        eval_dataset=_dataset(samplers["held-out"], eval_episodes),
        rubric=_rubric(),
        max_turns=turns,
    )


def _dataset(sampler: IncidentSampler, count: int) -> Any:
    rows = []
    for drawn in (sampler.draw() for _ in range(count)):
        info = {"scenario": drawn.scenario.name, "seed": drawn.seed, "split": sampler.split}
        prompt = first_messages(render_task(drawn), tool_specs(drawn.spec))
        rows.append({"prompt": prompt, "answer": "", "info": info})
    return Dataset.from_list(rows)


def _rubric() -> Any:
    """One reward; its parts and `resolved` are metrics without weight."""

    def reward(state: Any) -> float:
        return float(state.get("drilled", {}).get("reward", {}).get("total", 0.0))

    def resolved(state: Any) -> float:
        return float(state.get("drilled", {}).get("resolved", False))

    rubric = vf.Rubric(funcs=[reward], weights=[1.0])
    rubric.add_metric(resolved)
    for name in REWARD_PARTS:
        rubric.add_metric(_part_metric(name))
    return rubric


def _part_metric(name: str) -> Any:
    def part(state: Any) -> float:
        return float(state.get("drilled", {}).get("reward", {}).get(name, 0.0))

    part.__name__ = name
    return part


def _message_text(message: Any) -> str:
    """A message is a dictionary or an object of the library."""
    content = message["content"] if isinstance(message, dict) else message.content
    return content if isinstance(content, str) else ""
