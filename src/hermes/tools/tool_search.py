"""The tools `tool_search` and `tool_call`, for tools that are too many to be shown at once.

The list that goes to the model stays the same in every request; a tool that was found is called by
`tool_call`, and the policy decides about that inner call.
"""

import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from hermes.core.errors import ToolError
from hermes.core.foreign_text import one_line
from hermes.core.messages import Risk, ToolCall, ToolSpec
from hermes.core.protocols import Tool, ToolContext
from hermes.tools.declare import about, tool

SEARCH_TOOL, CALL_TOOL = "tool_search", "tool_call"
MAX_FOUND = 20
CHARS_PER_TOKEN = 4
_NAME_WEIGHT, _DESCRIPTION_WEIGHT, _PARAMETER_WEIGHT = 2.0, 1.0, 0.3
_SIMILAR_WORD_FACTOR, _MIN_PREFIX_CHARS = 0.5, 4
_MIN_STEM_CHARS = 4
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_STOP_WORDS = re.compile(
    "a|an|and|are|as|at|be|by|do|does|for|from|get|how|i|in|is|it|its|list|me|my|of|on|one|or|show|"
    "that|the|their|this|to|was|what|when|where|which|who|why|with|mcp|words|server"
)


def specs_tokens(specs: Sequence[ToolSpec]) -> int:
    """Roughly, how many tokens the list of these tools takes."""
    text = [each.name + each.description + json.dumps(each.parameters) for each in specs]
    return sum(map(len, text)) // CHARS_PER_TOKEN


def search_tools(specs: Sequence[ToolSpec], query: str, limit: int) -> list[ToolSpec]:
    """The tools that share most words with the query, the rarest words first."""
    indexed = [_weighted_words(spec) for spec in specs]
    frequency = Counter(word for words in indexed for word in words)
    wanted = list(dict.fromkeys(_words(query)))

    def score(words: Mapping[str, float]) -> float:
        return sum(_match(word, words, frequency, len(indexed)) for word in wanted)

    scored = [(score(words), -at) for at, words in enumerate(indexed)]
    best = sorted(((value, at) for value, at in scored if value > 0), reverse=True)
    return [specs[-at] for _, at in best[:limit]]


def _match(word: str, words: Mapping[str, float], frequency: Counter[str], count: int) -> float:
    if word in words:
        return words[word] * _rarity(frequency[word], count)
    similar = [
        weight * _rarity(frequency[other], count)
        for other, weight in words.items()
        if _are_similar(word, other)
    ]
    return _SIMILAR_WORD_FACTOR * max(similar, default=0.0)


def _rarity(frequency: int, count: int) -> float:
    return math.log(1 + count / max(frequency, 1))


def _are_similar(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return len(short) >= _MIN_PREFIX_CHARS and long.startswith(short)


def _weighted_words(spec: ToolSpec) -> dict[str, float]:
    weights: dict[str, float] = {}
    properties = spec.parameters.get("properties")
    parameters = " ".join(properties) if isinstance(properties, dict) else ""
    for text, weight in (
        (parameters, _PARAMETER_WEIGHT),
        (spec.description, _DESCRIPTION_WEIGHT),
        (spec.name, _NAME_WEIGHT),
    ):
        for word in _words(text):
            weights[word] = max(weights.get(word, 0.0), weight)
    return weights


def _words(text: str) -> list[str]:
    found = (word.lower() for word in _WORD.findall(text))
    return [_stem(word) for word in found if not _STOP_WORDS.fullmatch(word)]


def _stem(word: str) -> str:
    for ending in ("ies", "ing", "ed", "es", "s"):
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_STEM_CHARS - 1:
            return word.removesuffix(ending) + ("y" if ending == "ies" else "")
    return word


def make_tool_search(tools: Mapping[str, Tool]) -> dict[str, Tool]:
    """Both tools, for `tools` that the model does not see in its list."""
    specs = [each.spec for each in tools.values()]

    @tool(risk=Risk.READ)
    async def tool_search(
        context: ToolContext,
        query: Annotated[str, about("a few words: the system and what you want of it")],
        limit: int = 5,
    ) -> str:
        """Find further tools, of MCP servers, by what they do. Call one with `tool_call`."""
        found = search_tools(specs, query, max(1, min(limit, MAX_FOUND)))
        if not found:
            return f"no tool fits; there are {len(specs)}, try other words"
        return "\n\n".join(_describe(spec) for spec in found)

    numbers = itertools.count(1)

    @tool(risk=Risk.READ)
    async def tool_call(
        context: ToolContext,
        name: Annotated[str, about("a name that tool_search gave")],
        arguments: Annotated[dict[str, Any], about("as its schema says")],
    ) -> str:
        """Call a tool that `tool_search` found. It is checked like any other call."""
        if name not in tools:
            raise ToolError(f"tool_search knows no tool {name!r}; ask it")
        result = await context.call(ToolCall(f"{CALL_TOOL}-{next(numbers)}", name, arguments))
        if result.status != "ok":
            raise ToolError(result.content)
        return result.content

    return {SEARCH_TOOL: tool_search, CALL_TOOL: tool_call}


def _describe(spec: ToolSpec) -> str:
    about_it = one_line(spec.description, 300)
    return f"{spec.name} ({spec.risk.value}): {about_it}\n{json.dumps(spec.parameters)}"
