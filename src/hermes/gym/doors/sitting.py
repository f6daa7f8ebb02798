"""One episode for a player who is not ours: it sends calls, gets what they printed, and a score."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from itertools import count
from typing import Any, Literal

import anyio

from hermes.core.messages import ToolCall, ToolSpec, Value
from hermes.gym.box.carrier import Opener
from hermes.gym.box.here import open_here
from hermes.gym.conclude import make_conclude
from hermes.gym.doors.sampling import Drawn
from hermes.gym.drill import Drilled, Terms, judge, raise_alert, settle, told
from hermes.gym.episode import Episode, open_episode
from hermes.gym.hosts import spec_for
from hermes.gym.stage import Stage, bare_stage
from hermes.gym.story import Story
from hermes.memory.in_memory import InMemoryJournal
from hermes.policy.judgement import RuleBook
from hermes.tools.terminal import make_terminal

CONCLUDE = "conclude"
TASK = """\
You are on call, and nobody else is awake. An alert came in:

[{severity}] {title}
{text}
{labels}

Find out what is wrong, mend its cause with the smallest change that does, and verify that it \
holds. Leave everything else as it is. If nothing is wrong, change nothing. At the end call \
`conclude` once, with what you found and a report."""


class Step(Value, kw_only=True, frozen=True, omit_defaults=False):
    text: str
    status: Literal["ok", "error", "denied"] = "ok"
    steps: int = 0
    done: bool = False
    reward: float | None = None
    """Only at the end: nothing before it says whether a step helped."""


class Sitting:
    """Made with `open_sitting`. One step at a time; whoever comes later waits."""

    def __init__(self, drawn: Drawn, episode: Episode, stage: Stage, terms: Terms) -> None:
        self.drawn, self.terms = drawn, terms
        self.task = task(drawn)
        self.tools = tools(drawn.story)
        self.steps = 0
        self.result: Drilled | None = None
        self._episode, self._stage = episode, stage
        self._until = anyio.current_time() + terms.timeout
        self._numbers = count(1)
        self._lock = anyio.Lock()

    @property
    def done(self) -> bool:
        return self.result is not None

    async def step(
        self, tool: str, arguments: Mapping[str, Any], *, most: int = 0, malformed: str = ""
    ) -> Step:
        """A call, on the road every call takes. `most`: the step after which it is over."""
        async with self._lock:
            if self.result is not None:
                return self._told("The episode is over.", "error")
            call = ToolCall(f"step-{next(self._numbers)}", tool, dict(arguments), malformed)
            self.steps += 1
            left = self._until - anyio.current_time()
            with anyio.move_on_after(left) as clock:
                answer = await self._stage.execute(call)
            if clock.cancelled_caught:
                await self._end(f"out of time after {self.terms.timeout:g} s")
                return self._told("Out of time.", "error")
            if tool == CONCLUDE and answer.status == "ok":
                await self._end("finished")
            elif most and self.steps >= most:
                await self._end(f"out of steps after {most}")
            return self._told(answer.content, answer.status)

    async def finish(self) -> Drilled:
        """Judge it as it stands; the same result however often it is asked for."""
        async with self._lock:
            return self.result or await self._end("stopped by the player")

    async def _end(self, ended: str) -> Drilled:
        episode, stage = self._episode, self._stage
        drilled = Drilled(
            scenario=self.drawn.scenario.name,
            seed=self.drawn.seed,
            agent="outside",
            window=self.terms.window,
        )
        outcome = await judge(episode, self.terms)
        scored, _ = await settle(episode, stage, outcome, "model", self.terms)
        self.result = told(drilled, scored, outcome, "model", ended, stage.run)
        return self.result

    def _told(self, text: str, status: Literal["ok", "error", "denied"]) -> Step:
        reward = self.result.reward.total if self.result is not None else None
        return Step(text=text, status=status, steps=self.steps, done=self.done, reward=reward)


@asynccontextmanager
async def open_sitting(
    drawn: Drawn, book: RuleBook, terms: Terms, *, opener: Opener = open_here
) -> AsyncGenerator[Sitting, None]:
    """A broken host, and the alert already raised. Raises `Void`. Whatever still runs on the host
    when this is left ends with it."""
    async with (
        open_episode(drawn.scenario, drawn.story, opener=opener) as episode,
        bare_stage(episode, book) as stage,
    ):
        await raise_alert(episode, stage)
        yield Sitting(drawn, episode, stage, terms)


def task(drawn: Drawn) -> str:
    alert = drawn.story.alert
    labels = "\n".join(f"{name}: {value}" for name, value in sorted(alert.labels.items()))
    return TASK.format(
        severity=alert.severity, title=alert.title, text=alert.text, labels=labels
    ).strip()


def tools(story: Story) -> tuple[ToolSpec, ...]:
    """What the player can call."""
    specs = [make_terminal().spec, make_conclude(InMemoryJournal(), "").spec]
    names = tuple(host.name for host in story.hosts)
    return (*specs, spec_for(names)) if len(names) > 1 else tuple(specs)
