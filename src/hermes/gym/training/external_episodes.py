"""Episodes for players outside of Hermes: draws incidents, plays them step by step, rolls out.

`IncidentSampler` draws incidents by severity, `ExternalEpisode` executes one tool call at a time,
and `run_rollout` lets a model that writes its calls as text play an episode.
"""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal, Protocol

import anyio
import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import ToolCall, ToolSpec, Value
from hermes.environments.boxes.backend import BoxOpener
from hermes.environments.boxes.local_backend import open_local_box
from hermes.gym.drill import (
    DrillResult,
    DrillTerms,
    complete_result,
    judge_episode,
    raise_alert,
    record_and_score,
)
from hermes.gym.episodes.episode import Episode, open_episode
from hermes.gym.episodes.responder_context import EpisodeRun, host_terminal_spec, open_bare_run
from hermes.gym.episodes.run_summary import CONCLUDE_TOOL, make_conclude_tool
from hermes.gym.random_source import Split
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_spec import ScenarioSpec, Severity
from hermes.gym.training.trajectory_formats import TOOL_CALL_PATTERN, to_function_schema
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.policy.rules.evaluation import RuleSet
from hermes.tools.terminal import make_terminal

SEVERITY_WEIGHTS: Mapping[Severity, float] = {"P0": 3.0, "P1": 2.0, "P2": 1.5, "P3": 1.0}
SEED_COUNT = 1_000_000


class SampledIncident(Value, frozen=True):
    scenario: Scenario
    seed: int
    spec: ScenarioSpec


class IncidentSampler:
    """The same seed draws the same incidents in the same order."""

    def __init__(
        self, scenarios: Sequence[Scenario], *, seed: int = 0, split: Split = "train"
    ) -> None:
        kept = [each for each in scenarios if split == "held-out" or not each.held_out]
        if not kept:
            raise SettingsError("there is no scenario to draw from; see: hermes drill list")
        self.scenarios = {each.name: each for each in kept}
        self.split: Split = split
        self._random = random.Random(f"incidents:{seed}:{split}")

    def draw(self) -> SampledIncident:
        """Rejection sampling: a variant is accepted with a probability by its severity."""
        heaviest = max(SEVERITY_WEIGHTS.values())
        while True:
            scenario = self._random.choice(list(self.scenarios.values()))
            found = self.draw_variant(scenario, self._random.randrange(SEED_COUNT))
            if self._random.random() * heaviest < SEVERITY_WEIGHTS[found.spec.alert.severity]:
                return found

    def draw_by_seed(self, seed: int) -> SampledIncident:
        """The same seed gives the same incident, whatever was drawn before."""
        return IncidentSampler(tuple(self.scenarios.values()), seed=seed, split=self.split).draw()

    def draw_by_name(self, name: str, seed: int | None) -> SampledIncident:
        """Raises `SettingsError` for an unknown name."""
        if name not in self.scenarios:
            raise SettingsError(
                f"there is no scenario {name!r} here; there are: {', '.join(self.scenarios)}"
            )
        chosen = self._random.randrange(SEED_COUNT) if seed is None else seed
        return self.draw_variant(self.scenarios[name], chosen)

    def draw_variant(self, scenario: Scenario, seed: int) -> SampledIncident:
        return SampledIncident(scenario, seed, scenario.draw_spec(seed, self.split))


TASK_TEMPLATE = """\
You are on call, and nobody else is awake. An alert came in:

[{severity}] {title}
{text}
{labels}

Find out what is wrong, repair its cause with the smallest change that does, and verify that it \
holds. Leave everything else as it is. If nothing is wrong, change nothing. At the end call \
`conclude` once, with what you found and a report."""


class StepResult(Value, kw_only=True, frozen=True, omit_defaults=False):
    text: str
    status: Literal["ok", "error", "denied"] = "ok"
    steps: int = 0
    done: bool = False
    reward: float | None = None
    """None until the end of the episode."""


class ExternalEpisode:
    """Opened with `open_external_episode`. Runs one step at a time; further calls wait."""

    def __init__(
        self,
        incident: SampledIncident,
        episode: Episode,
        episode_run: EpisodeRun,
        terms: DrillTerms,
    ) -> None:
        self.incident, self.terms = incident, terms
        self.task = render_task(incident)
        self.tools = tool_specs(incident.spec)
        self.steps = 0
        self.result: DrillResult | None = None
        self._episode, self._episode_run = episode, episode_run
        self._deadline = anyio.current_time() + terms.responder_timeout_s
        self._numbers = count(1)
        self._lock = anyio.Lock()

    @property
    def done(self) -> bool:
        return self.result is not None

    async def step(
        self, tool: str, arguments: Mapping[str, Any], *, max_steps: int = 0, malformed: str = ""
    ) -> StepResult:
        """Executes a call like any other. The episode ends after `max_steps` steps."""
        async with self._lock:
            if self.result is not None:
                return self._step_result("The episode is over.", "error")
            call = ToolCall(f"step-{next(self._numbers)}", tool, dict(arguments), malformed)
            self.steps += 1
            left = self._deadline - anyio.current_time()
            with anyio.move_on_after(left) as clock:
                answer = await self._episode_run.execute(call)
            if clock.cancelled_caught:
                await self._end(f"out of time after {self.terms.responder_timeout_s:g} s")
                return self._step_result("Out of time.", "error")
            if tool == CONCLUDE_TOOL and answer.status == "ok":
                await self._end("finished")
            elif max_steps and self.steps >= max_steps:
                await self._end(f"out of steps after {max_steps}")
            return self._step_result(answer.content, answer.status)

    async def finish(self) -> DrillResult:
        """Judges the current state, once; later calls return the same result."""
        async with self._lock:
            return self.result or await self._end("stopped by the player")

    async def _end(self, ended: str) -> DrillResult:
        episode, episode_run = self._episode, self._episode_run
        result = DrillResult(
            scenario=self.incident.scenario.name,
            seed=self.incident.seed,
            agent="outside",
            window=self.terms.window_s,
        )
        outcome = await judge_episode(episode, self.terms)
        scored, _ = await record_and_score(episode, episode_run, outcome, "model", self.terms)
        self.result = complete_result(result, scored, outcome, "model", ended, episode_run.run)
        return self.result

    def _step_result(self, text: str, status: Literal["ok", "error", "denied"]) -> StepResult:
        reward = self.result.reward.total if self.result is not None else None
        return StepResult(text=text, status=status, steps=self.steps, done=self.done, reward=reward)


@asynccontextmanager
async def open_external_episode(
    incident: SampledIncident,
    rules: RuleSet,
    terms: DrillTerms,
    *,
    opener: BoxOpener = open_local_box,
) -> AsyncGenerator[ExternalEpisode, None]:
    """Opens a broken host with its alert raised. All processes on the host end with the context.

    Raises `EpisodeVoid`.
    """
    async with (
        open_episode(incident.scenario, incident.spec, opener=opener) as episode,
        open_bare_run(episode, rules) as episode_run,
    ):
        await raise_alert(episode, episode_run)
        yield ExternalEpisode(incident, episode, episode_run, terms)


def render_task(incident: SampledIncident) -> str:
    alert = incident.spec.alert
    labels = "\n".join(f"{name}: {value}" for name, value in sorted(alert.labels.items()))
    return TASK_TEMPLATE.format(
        severity=alert.severity, title=alert.title, text=alert.text, labels=labels
    ).strip()


def tool_specs(spec: ScenarioSpec) -> tuple[ToolSpec, ...]:
    """The tools of a player."""
    specs = [make_terminal().spec, make_conclude_tool(InMemoryJournal(), "").spec]
    names = tuple(host.name for host in spec.hosts)
    return (*specs, host_terminal_spec(names)) if len(names) > 1 else tuple(specs)


ChatMessages = list[dict[str, str]]
GenerateAnswer = Callable[[ChatMessages], Awaitable[str]]
"""Returns the model's next message."""
MASKED_TOKEN = -100
"""Marks tokens that the model did not write."""
SYSTEM_PROMPT = """\
You are an operations agent. You can call tools; their signatures are within <tools></tools>:
<tools>{tools}</tools>
For each call write a JSON object with name and arguments within <tool_call></tool_call>, such as
<tool_call>{{"name": "terminal", "arguments": {{"command": "systemctl --failed"}}}}</tool_call>
You get what it printed within <tool_response></tool_response>. An answer without a call ends \
your work."""


class Rollout(Value, kw_only=True, frozen=True):
    messages: ChatMessages
    result: DrillResult

    @property
    def reward(self) -> float:
        return self.result.reward.total


async def run_rollout(
    episode: ExternalEpisode, generate: GenerateAnswer, *, max_answers: int
) -> Rollout:
    """Ends when the model concludes, calls no tool, or has given `max_answers` answers."""
    chat = first_messages(episode.task, episode.tools)
    for _ in range(max_answers):
        answer = await generate(list(chat))
        chat.append({"role": "assistant", "content": answer})
        calls = parse_tool_calls(answer)
        responses = [await run_tool_call(episode, call) for call in calls if not episode.done]
        if not calls or episode.done:
            break
        chat.append({"role": "tool", "content": "\n".join(responses)})
    return Rollout(messages=chat, result=await episode.finish())


def first_messages(task: str, tools: Sequence[ToolSpec]) -> ChatMessages:
    """The system prompt and the task."""
    schemas = msgspec.json.encode([to_function_schema(spec) for spec in tools]).decode()
    return [
        {"role": "system", "content": SYSTEM_PROMPT.format(tools=schemas)},
        {"role": "user", "content": task},
    ]


def parse_tool_calls(answer: str) -> list[ToolCall]:
    """Text that is no JSON object with a name becomes a malformed call, which fails."""
    return [
        _parse_tool_call(text.strip(), number)
        for number, text in enumerate(TOOL_CALL_PATTERN.findall(answer), 1)
    ]


def _parse_tool_call(text: str, number: int) -> ToolCall:
    try:
        raw = msgspec.json.decode(text, type=dict[str, Any])
        arguments = raw.get("arguments", {})
        if isinstance(raw.get("name"), str) and isinstance(arguments, dict):
            return ToolCall(f"call-{number}", raw["name"], arguments)
    except msgspec.MsgspecError:
        pass
    return ToolCall(f"call-{number}", "terminal", {}, text)


async def run_tool_call(episode: ExternalEpisode, call: ToolCall) -> str:
    step: StepResult = await episode.step(call.name, call.arguments, malformed=call.malformed)
    body = {"name": call.name, "content": step.text}
    if step.status != "ok":
        body["status"] = step.status
    encoded = msgspec.json.encode(body).decode().replace("</", "<\\/")
    return f"<tool_response>{encoded}</tool_response>"


class Tokenizer(Protocol):
    def apply_chat_template(self, conversation: ChatMessages, **options: Any) -> Any: ...


def tokens_and_masks(tokenizer: Tokenizer, chat: ChatMessages) -> tuple[list[int], list[int]]:
    """All tokens, and the same with those masked that the model did not write."""
    tokens = _tokenize(tokenizer, chat)
    masks = [MASKED_TOKEN] * len(tokens)
    for number, message in enumerate(chat):
        if message["role"] != "assistant":
            continue
        start = len(_tokenize(tokenizer, chat[:number], add_generation_prompt=True))
        end = len(_tokenize(tokenizer, chat[: number + 1]))
        masks[start:end] = tokens[start:end]
    return tokens, masks


def _tokenize(
    tokenizer: Tokenizer, chat: ChatMessages, *, add_generation_prompt: bool = False
) -> list[int]:
    # With `return_dict=False`: newer tokenizers return a dictionary by default.
    tokens = tokenizer.apply_chat_template(
        chat, tokenize=True, return_dict=False, add_generation_prompt=add_generation_prompt
    )
    return list(tokens)
