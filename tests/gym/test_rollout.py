"""A model that only writes text plays an episode; its own tokens are separated from the others.

The libraries of trainers are too large for this suite: `make test-training` plays through them.
These tests cover the code that both libraries use.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from hermes.environments.sandboxing import support
from hermes.gym.drill import DrillTerms
from hermes.gym.episodes.responder_context import sandbox_rules
from hermes.gym.scenario import find_scenario
from hermes.gym.training.external_episodes import (
    MASKED_TOKEN,
    ChatMessages,
    IncidentSampler,
    open_external_episode,
    parse_tool_calls,
    run_rollout,
    tokens_and_masks,
)

TYPO, SEED = "config-typo-after-edit", 4
boxes = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)


def writes(name: str, **arguments: object) -> str:
    body = msgspec.json.encode({"name": name, "arguments": arguments}).decode()
    return f"<think>so</think>\n<tool_call>\n{body}\n</tool_call>"


class Speaker:
    def __init__(self, *answers: str) -> None:
        self._answers = iter(answers)

    async def __call__(self, chat: ChatMessages) -> str:
        return next(self._answers)


@boxes
@pytest.mark.anyio
async def test_one_that_fixes_it_is_paid_and_one_that_only_talks_is_not() -> None:
    drawn = IncidentSampler([find_scenario(TYPO)]).draw_by_name(TYPO, SEED)
    spec, terms = (
        drawn.spec,
        DrillTerms(window_s=0.0, responder_timeout_s=120.0, symptom_timeout_s=2.0),
    )
    fixing = Speaker(
        "<tool_call>{no json}</tool_call>",
        *(writes("terminal", command=command) for command in spec.reference),
        writes("conclude", answer="fix", component=spec.fault.component[0]),
    )
    async with open_external_episode(drawn, sandbox_rules(), terms) as episode:
        fixed = await run_rollout(episode, fixing, max_answers=20)
    assert fixed.result.resolved
    assert fixed.reward >= 0.5
    roles = [each["role"] for each in fixed.messages]
    assert roles[:5] == ["system", "user", "assistant", "tool", "assistant"]
    assert "error" in fixed.messages[3]["content"], "it is told that this was no JSON"
    assert roles[-1] == "assistant"
    async with open_external_episode(drawn, sandbox_rules(), terms) as episode:
        talked = await run_rollout(episode, Speaker("All is well. I fixed it."), max_answers=20)
    assert not talked.result.resolved
    assert talked.reward <= 0.05


def test_calls_are_read_from_text_however_they_are_written() -> None:
    good, bad, odd = parse_tool_calls(
        'x <tool_call>{"name":"terminal","arguments":{"command":"a"}}</tool_call>'
        '<tool_call>oops</tool_call><tool_call>{"name":7}</tool_call>'
    )
    assert (good.name, good.arguments, good.malformed) == ("terminal", {"command": "a"}, "")
    assert (bad.malformed, odd.malformed) == ("oops", '{"name":7}')


class Letters:
    """A tokenizer with a token for each letter."""

    def apply_chat_template(self, conversation: Sequence[dict[str, str]], **options: Any) -> Any:
        assert options["return_dict"] is False
        text = "".join(f"[{each['role']}]{each['content']}." for each in conversation)
        return [ord(letter) for letter in text + options["add_generation_prompt"] * "[assistant]"]


def test_only_what_the_model_wrote_is_trained_on() -> None:
    chat = [
        {"role": "user", "content": "asked"},
        {"role": "assistant", "content": "one"},
        {"role": "tool", "content": "seen"},
        {"role": "assistant", "content": "two"},
    ]
    tokens, masks = tokens_and_masks(Letters(), chat)
    assert len(tokens) == len(masks)
    assert "".join(chr(each) for each in masks if each != MASKED_TOKEN) == "one.two."
