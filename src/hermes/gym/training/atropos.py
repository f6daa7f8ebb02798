"""Offers the incidents as an Atropos environment: serve, process, evaluate. An optional extra.

    python -m hermes.gym.training.atropos serve --openai.base_url http://localhost:9001/v1 \
        --openai.model_name my-model --env.tokenizer_name my-model

Atropos is no longer developed by its authors; nothing else in Hermes uses this module.
"""

from collections.abc import Sequence
from typing import Any

import anyio
from atroposlib.envs.base import APIServerConfig, BaseEnv, BaseEnvConfig
from pydantic import Field

from hermes.gym.drill import DrillTerms
from hermes.gym.episodes.episode import EpisodeVoid
from hermes.gym.episodes.readiness import select_scenarios
from hermes.gym.episodes.responder_context import sandbox_rules
from hermes.gym.training.external_episodes import (
    ChatMessages,
    IncidentSampler,
    Rollout,
    SampledIncident,
    open_external_episode,
    run_rollout,
    tokens_and_masks,
)

ENVIRONMENT_NAME = "hermes_incidents"
LOCAL_MODEL_URL = "http://127.0.0.1:9001/v1"


class AtroposIncidentConfig(BaseEnvConfig):  # type: ignore[misc]  # the library has no types
    scenarios: str = Field(
        default="", description="Names, with commas; empty: all that can be played here."
    )
    light: bool = Field(default=True, description="Without names: only light scenarios.")
    seed: int = Field(default=0, description="Of the order of incidents.")
    turns: int = Field(default=20, description="Answers that the model may give in an episode.")
    answer_tokens: int = Field(default=1024, description="Tokens that one answer may have.")
    window: float = Field(default=2.0, description="Seconds for which a fix must hold.")
    episode_seconds: float = Field(default=300.0, description="Seconds that the model has.")
    eval_episodes: int = Field(default=20, description="Incidents in an evaluation.")
    temperature: float = Field(default=1.0, description="Of training; evaluation takes 0.")


class AtroposIncidentEnv(BaseEnv):  # type: ignore[misc]  # the library has no types
    name = ENVIRONMENT_NAME
    env_config_cls = AtroposIncidentConfig

    @classmethod
    def config_init(cls) -> tuple[AtroposIncidentConfig, list[Any]]:
        # The Atropos server requires `wandb_name` even where wandb is off.
        config = AtroposIncidentConfig(
            wandb_name=ENVIRONMENT_NAME, use_wandb=False, max_token_length=16_384
        )
        server = APIServerConfig(model_name="model", base_url=LOCAL_MODEL_URL, api_key="x")
        return config, [server]

    async def setup(self) -> None:
        pool = select_scenarios(self.config.scenarios, light=self.config.light)
        self.rules = sandbox_rules()
        self.sampler = IncidentSampler(pool, seed=self.config.seed)
        self.held_out = IncidentSampler(pool, seed=self.config.seed, split="held-out")

    async def get_next_item(self) -> tuple[str, int]:
        drawn = self.sampler.draw()
        return drawn.scenario.name, drawn.seed

    async def collect_trajectories(
        self, item: tuple[str, int]
    ) -> tuple[dict[str, Any] | None, list[Any]]:
        """A group of episodes of one incident; None when a host could not be built or broken."""
        name, seed = item
        drawn = self.sampler.draw_by_name(name, seed)
        size = self.config.group_size
        played = await self._play([drawn] * size, "train")
        if len(played) < size:
            return None, []
        group: dict[str, Any] = {"tokens": [], "masks": [], "scores": [], "messages": []}
        for each in played:
            tokens, masks = tokens_and_masks(self.tokenizer, each.messages)
            group["tokens"].append(tokens)
            group["masks"].append(masks)
            group["scores"].append(each.reward)
            group["messages"].append(each.messages)
        return group, []

    async def evaluate(self, *arguments: Any, **options: Any) -> None:
        """Uses wordings that training never sees."""
        count = self.config.eval_episodes
        played = await self._play([self.held_out.draw() for _ in range(count)], "eval")
        whole = max(len(played), 1)
        await self.evaluate_log(
            {
                "eval/reward": sum(each.reward for each in played) / whole,
                "eval/resolved": sum(each.result.resolved for each in played) / whole,
                "eval/void": float(count - len(played)),
            },
            samples=[{"messages": each.messages, "score": each.reward} for each in played],
        )

    async def _play(self, drawn: Sequence[SampledIncident], split: str) -> list[Rollout]:
        played: list[Rollout] = []
        limit = anyio.CapacityLimiter(max(self.config.group_size, 1))

        async def one(each: SampledIncident) -> None:
            async with limit:
                try:
                    played.append(await self._episode(each, split))
                except EpisodeVoid:
                    return  # not scored

        async with anyio.create_task_group() as group:
            for each in drawn:
                group.start_soon(one, each)
        return played

    async def _episode(self, drawn: SampledIncident, split: str) -> Rollout:
        config = self.config
        terms = DrillTerms(window_s=config.window, responder_timeout_s=config.episode_seconds)

        async def generate(chat: ChatMessages) -> str:
            answer = await self.server.chat_completion(
                messages=chat,
                n=1,
                max_tokens=config.answer_tokens,
                temperature=config.temperature if split == "train" else 0.0,
                split=split,
            )
            return answer.choices[0].message.content or ""

        async with open_external_episode(drawn, self.rules, terms) as episode:
            return await run_rollout(episode, generate, max_answers=config.turns)


if __name__ == "__main__":
    AtroposIncidentEnv.cli()
