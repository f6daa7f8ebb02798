"""Which incident comes next: what would hurt more comes more often."""

import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal, Protocol

import anyio
import msgspec

from hermes.core.errors import SettingsError
from hermes.core.messages import ToolCall, ToolSpec, Value
from hermes.gym.box.backend import BoxOpener
from hermes.gym.box.local_backend import open_local_box
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
from hermes.gym.episodes.run_summary import make_conclude_tool
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
        """Drawn evenly, kept with the chance of its severity: so the weights hold exactly."""
        heaviest = max(SEVERITY_WEIGHTS.values())
        while True:
            scenario = self._random.choice(list(self.scenarios.values()))
            found = self.draw_variant(scenario, self._random.randrange(SEED_COUNT))
            if self._random.random() * heaviest < SEVERITY_WEIGHTS[found.spec.alert.severity]:
                return found

    def draw_by_seed(self, seed: int) -> SampledIncident:
        """The incident of this number, whatever was drawn before."""
        return IncidentSampler(tuple(self.scenarios.values()), seed=seed, split=self.split).draw()

    def draw_by_name(self, name: str, seed: int | None) -> SampledIncident:
        """Raises `SettingsError` when it is none of these."""
        if name not in self.scenarios:
            raise SettingsError(
                f"there is no scenario {name!r} here; there are: {', '.join(self.scenarios)}"
            )
        chosen = self._random.randrange(SEED_COUNT) if seed is None else seed
        return self.draw_variant(self.scenarios[name], chosen)

    def draw_variant(self, scenario: Scenario, seed: int) -> SampledIncident:
        return SampledIncident(scenario, seed, scenario.draw_spec(seed, self.split))


CONCLUDE_TOOL = "conclude"
TASK_TEMPLATE = """\
You are on call, and nobody else is awake. An alert came in:

[{severity}] {title}
{text}
{labels}

Find out what is wrong, mend its cause with the smallest change that does, and verify that it \
holds. Leave everything else as it is. If nothing is wrong, change nothing. At the end call \
`conclude` once, with what you found and a report."""


class StepResult(Value, kw_only=True, frozen=True, omit_defaults=False):
    text: str
    status: Literal["ok", "error", "denied"] = "ok"
    steps: int = 0
    done: bool = False
    reward: float | None = None
    """Only at the end: nothing before it says whether a step helped."""


class ExternalEpisode:
    """Made with `open_external_episode`. One step at a time; whoever comes later waits."""

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
        """A call, on the road every call takes. `most`: the step after which it is over."""
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
        """Judge it as it stands; the same result however often it is asked for."""
        async with self._lock:
            return self.result or await self._end("stopped by the player")

    async def _end(self, ended: str) -> DrillResult:
        episode, stage = self._episode, self._episode_run
        drilled = DrillResult(
            scenario=self.incident.scenario.name,
            seed=self.incident.seed,
            agent="outside",
            window=self.terms.window_s,
        )
        outcome = await judge_episode(episode, self.terms)
        scored, _ = await record_and_score(episode, stage, outcome, "model", self.terms)
        self.result = complete_result(drilled, scored, outcome, "model", ended, stage.run)
        return self.result

    def _step_result(self, text: str, status: Literal["ok", "error", "denied"]) -> StepResult:
        reward = self.result.reward.total if self.result is not None else None
        return StepResult(text=text, status=status, steps=self.steps, done=self.done, reward=reward)


@asynccontextmanager
async def open_external_episode(
    incident: SampledIncident,
    book: RuleSet,
    terms: DrillTerms,
    *,
    opener: BoxOpener = open_local_box,
) -> AsyncGenerator[ExternalEpisode, None]:
    """A broken host, and the alert already raised. Raises `EpisodeVoid`. Whatever still runs on the host
    when this is left ends with it."""
    async with (
        open_episode(incident.scenario, incident.spec, opener=opener) as episode,
        open_bare_run(episode, book) as stage,
    ):
        await raise_alert(episode, stage)
        yield ExternalEpisode(incident, episode, stage, terms)


def render_task(incident: SampledIncident) -> str:
    alert = incident.spec.alert
    labels = "\n".join(f"{name}: {value}" for name, value in sorted(alert.labels.items()))
    return TASK_TEMPLATE.format(
        severity=alert.severity, title=alert.title, text=alert.text, labels=labels
    ).strip()


def tool_specs(spec: ScenarioSpec) -> tuple[ToolSpec, ...]:
    """What the player can call."""
    specs = [make_terminal().spec, make_conclude_tool(InMemoryJournal(), "").spec]
    names = tuple(host.name for host in spec.hosts)
    return (*specs, host_terminal_spec(names)) if len(names) > 1 else tuple(specs)


ChatMessages = list[dict[str, str]]
GenerateAnswer = Callable[[ChatMessages], Awaitable[str]]
"""The next words of the model."""
MASKED_TOKEN = -100
"""What a trainer reads as: not the model's own words."""
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
    """Until it concludes, has no more to call, or has had `most` answers."""
    chat = first_messages(episode.task, episode.tools)
    for _ in range(max_answers):
        words = await generate(list(chat))
        chat.append({"role": "assistant", "content": words})
        calls = parse_tool_calls(words)
        taken = [await run_tool_call(episode, call) for call in calls if not episode.done]
        if not calls or episode.done:
            break
        chat.append({"role": "tool", "content": "\n".join(taken)})
    return Rollout(messages=chat, result=await episode.finish())


def first_messages(task: str, tools: Sequence[ToolSpec]) -> ChatMessages:
    """What the model is told first."""
    described = msgspec.json.encode([to_function_schema(spec) for spec in tools]).decode()
    return [
        {"role": "system", "content": SYSTEM_PROMPT.format(tools=described)},
        {"role": "user", "content": task},
    ]


def parse_tool_calls(answer: str) -> list[ToolCall]:
    """What is no JSON object with a name is a call too: the model is told what was wrong."""
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
    """Tokens of the whole, and the same with everything masked that the model did not write.

    Asked for as a list by name: newer tokenizers give a dictionary otherwise.
    """
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
    found = tokenizer.apply_chat_template(
        chat, tokenize=True, return_dict=False, add_generation_prompt=add_generation_prompt
    )
    return list(found)
