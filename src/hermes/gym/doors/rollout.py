"""A model plays an episode through plain chat: calls and answers are text, as a trainer sees them.

Nothing here depends on how a server parses calls: what the model wrote is what is trained on.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from hermes.core.messages import ToolCall, ToolSpec, Value
from hermes.gym.doors.sitting import Sitting, Step
from hermes.gym.drill import Drilled
from hermes.gym.trajectories.sharegpt import CALL, as_function

Chat = list[dict[str, str]]
Say = Callable[[Chat], Awaitable[str]]
"""The next words of the model."""
MASKED = -100
"""What a trainer reads as: not the model's own words."""
RULES = """\
You are an operations agent. You can call tools; their signatures are within <tools></tools>:
<tools>{tools}</tools>
For each call write a JSON object with name and arguments within <tool_call></tool_call>, such as
<tool_call>{{"name": "terminal", "arguments": {{"command": "systemctl --failed"}}}}</tool_call>
You get what it printed within <tool_response></tool_response>. An answer without a call ends \
your work."""


class Rollout(Value, kw_only=True, frozen=True):
    messages: Chat
    result: Drilled

    @property
    def reward(self) -> float:
        return self.result.reward.total


async def roll_out(sitting: Sitting, say: Say, *, most: int) -> Rollout:
    """Until it concludes, has no more to call, or has had `most` answers."""
    chat = opening(sitting.task, sitting.tools)
    for _ in range(most):
        words = await say(list(chat))
        chat.append({"role": "assistant", "content": words})
        calls = calls_in(words)
        taken = [await take(sitting, call) for call in calls if not sitting.done]
        if not calls or sitting.done:
            break
        chat.append({"role": "tool", "content": "\n".join(taken)})
    return Rollout(messages=chat, result=await sitting.finish())


def opening(task: str, tools: Sequence[ToolSpec]) -> Chat:
    """What the model is told first."""
    described = msgspec.json.encode([as_function(spec) for spec in tools]).decode()
    return [
        {"role": "system", "content": RULES.format(tools=described)},
        {"role": "user", "content": task},
    ]


def calls_in(words: str) -> list[ToolCall]:
    """What is no JSON object with a name is a call too: the model is told what was wrong."""
    return [_call(text.strip(), number) for number, text in enumerate(CALL.findall(words), 1)]


def _call(text: str, number: int) -> ToolCall:
    try:
        raw = msgspec.json.decode(text, type=dict[str, Any])
        arguments = raw.get("arguments", {})
        if isinstance(raw.get("name"), str) and isinstance(arguments, dict):
            return ToolCall(f"call-{number}", raw["name"], arguments)
    except msgspec.MsgspecError:
        pass
    return ToolCall(f"call-{number}", "terminal", {}, text)


async def take(sitting: Sitting, call: ToolCall) -> str:
    step: Step = await sitting.step(call.name, call.arguments, malformed=call.malformed)
    body = {"name": call.name, "content": step.text}
    if step.status != "ok":
        body["status"] = step.status
    encoded = msgspec.json.encode(body).decode().replace("</", "<\\/")
    return f"<tool_response>{encoded}</tool_response>"


class Tokenizer(Protocol):
    def apply_chat_template(self, conversation: Chat, **options: Any) -> Any: ...


def tokens_and_masks(tokenizer: Tokenizer, chat: Chat) -> tuple[list[int], list[int]]:
    """Tokens of the whole, and the same with everything masked that the model did not write.

    Asked for as a list by name: newer tokenizers give a dictionary otherwise.
    """
    tokens = _tokens(tokenizer, chat)
    masks = [MASKED] * len(tokens)
    for number, message in enumerate(chat):
        if message["role"] != "assistant":
            continue
        start = len(_tokens(tokenizer, chat[:number], add_generation_prompt=True))
        end = len(_tokens(tokenizer, chat[: number + 1]))
        masks[start:end] = tokens[start:end]
    return tokens, masks


def _tokens(tokenizer: Tokenizer, chat: Chat, *, add_generation_prompt: bool = False) -> list[int]:
    found = tokenizer.apply_chat_template(
        chat, tokenize=True, return_dict=False, add_generation_prompt=add_generation_prompt
    )
    return list(found)
