"""Proposes how each tool of a server is judged, for the person who reviews it.

A hint of the server can only make a proposal stricter. Names and parameters are read as well: a
`delete_all` that claims to read only, or a tool that passes any request through.
"""

import re
from collections.abc import Callable, Iterable, Mapping

from hermes.core.errors import SettingsError
from hermes.core.foreign_text import visible_line
from hermes.core.messages import Risk, Value
from hermes.core.plugins import BUILT_IN
from hermes.integrations.mcp.pins import (
    MAX_TOOLS,
    ForeignTool,
    ServerPin,
    ToolDifference,
    compare_tools,
    tool_objection,
)

FindSuspiciousText = Callable[[str], list[str]]
"""What is wrong with a text of a foreign author, one line for each finding."""

_DESTROYING_WORDS = re.compile(
    "delete|destroy|drop|purge|truncate|wipe|uninstall|terminate|remove|kill|drain|exec|eval|shell|"
    "revoke|erase|evict"
)
_CHANGING_WORDS = re.compile(
    "acknowledge|add|append|apply|approve|archive|assign|attach|cancel|change|checkout|clear|close|"
    "commit|configure|copy|create|deploy|disable|edit|enable|execute|import|insert|install|invite|"
    "invoke|label|merge|modify|move|mute|patch|pause|post|promote|publish|push|put|rebase|rename|"
    "reopen|replace|reset|resolve|restart|resume|retry|revert|rollback|rotate|run|save|scale|"
    "schedule|send|set|silence|snooze|stage|start|stop|submit|sync|tag|transfer|trigger|unmute|"
    "unsilence|update|upload|upsert|write"
)
_SECRET_WORDS = re.compile("secrets?|tokens?|credentials?|passwords?|env|kubeconfig")
_PASS_THROUGH_WORDS = re.compile("request|raw|proxy|passthrough|http|curl|api")
_PASS_THROUGH_PARAMETERS = (
    {"method", "url"},
    {"method", "path"},
    {"method", "endpoint"},
    {"verb", "path"},
)
_COMMAND_PARAMETERS = frozenset({"command", "cmd", "shell", "script", "argv"})
_OWN_NAMES = frozenset({*BUILT_IN["tools"], "delegate", "tool_search", "tool_call"})
_ORDERS_ABOUT_TOOLS = re.compile(
    r"\b(?:before|after|instead of)\b.{0,40}\b(?:any|every|all|other)\b.{0,20}\btools?\b"
    r"|\byou must (?:always|first|never)\b"
    r"|\b(?:pass|include|add|send|put)\b.{0,60}\b(?:environment variables?|system prompt|"
    r"conversation|chat history|passwords?|secrets?|credentials?)\b",
    re.IGNORECASE | re.DOTALL,
)
"""What a description has no reason to say: it steers the agent beyond its own tool."""
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


class ToolProposal(Value, kw_only=True, frozen=True):
    """How a tool would be classed, and why; a person decides."""

    tool: ForeignTool
    risk: Risk
    why: str
    objection: str = ""
    """Why it cannot be used at all."""
    findings: tuple[str, ...] = ()
    """What is suspicious about its description."""
    change: str = ""
    """`new` or `changed` since the last review; empty for a tool that is as it was."""
    parts: tuple[str, ...] = ()
    """What changed, one line each."""
    current: Risk | None = None
    """Its class of the last review."""


def propose_classes(
    listed: Iterable[ForeignTool],
    *,
    pin: ServerPin | None = None,
    recipe: Mapping[str, Risk] | None = None,
    find_suspicious: FindSuspiciousText = lambda _: [],
) -> list[ToolProposal]:
    """One proposal for each tool. Raises `SettingsError` for a list that cannot be reviewed."""
    tools = list(listed)
    if len(tools) > MAX_TOOLS:
        raise SettingsError(
            f"the server offers more than {MAX_TOOLS:,} tools; nobody can review them"
        )
    names = [tool.name for tool in tools]
    if twice := next((name for name in names if names.count(name) > 1), ""):
        raise SettingsError(f"the server lists the tool {twice[:80]!r} twice")
    known = recipe or {}
    usable = [tool for tool in tools if not tool_objection(tool)]
    differences = {each.name: each for each in compare_tools(pin, usable)} if pin else {}
    return [
        _propose(tool, known.get(tool.name), pin, differences.get(tool.name), find_suspicious)
        for tool in tools
    ]


def _propose(
    tool: ForeignTool,
    from_recipe: Risk | None,
    pin: ServerPin | None,
    difference: ToolDifference | None,
    find_suspicious: FindSuspiciousText,
) -> ToolProposal:
    if objection := tool_objection(tool):
        return ToolProposal(tool=tool, risk=Risk.DESTROY, why="", objection=objection)
    risk, why = propose_class(tool)
    if from_recipe is not None and _SEVERITY[from_recipe] >= _SEVERITY[risk]:
        risk, why = from_recipe, "the recipe says so"
    prose = _prose(tool)
    findings = tuple(find_suspicious(prose))
    if order := _ORDERS_ABOUT_TOOLS.search(prose):
        findings += (f"it tells the agent what to do: {visible_line(order[0], 80)!r}",)
    if findings and risk is Risk.READ:
        risk, why = Risk.CHANGE, "its description is suspicious"
    old = pin.find(tool.name) if pin is not None else None
    return ToolProposal(
        tool=tool,
        risk=risk,
        why=why,
        findings=findings,
        change=difference.change if difference is not None else "",
        parts=difference.parts if difference is not None else (),
        current=old.risk if old is not None and old.by else None,
    )


_SEVERITY = {Risk.READ: 0, Risk.CHANGE: 1, Risk.DESTROY: 2}


def propose_class(tool: ForeignTool) -> tuple[Risk, str]:
    """The class that a person would choose who believes nothing but the strictest sign."""
    name = {word.lower() for word in _WORD.findall(tool.name)}
    parameters = {str(key).lower() for key in _properties(tool)}
    if tool.name in _OWN_NAMES:
        return Risk.DESTROY, "it has the name of a tool of ours"
    if any(pair <= parameters for pair in _PASS_THROUGH_PARAMETERS) or (
        _first(_PASS_THROUGH_WORDS, name) and parameters & {"url", "path", "endpoint", "body"}
    ):
        return Risk.DESTROY, "it passes any request through"
    if parameters & _COMMAND_PARAMETERS:
        return Risk.DESTROY, "it runs any command"
    if tool.says_destructive:
        return Risk.DESTROY, "the server says that it destroys"
    if word := _first(_DESTROYING_WORDS, name):
        return Risk.DESTROY, f"its name says {word}"
    if word := _first(_CHANGING_WORDS, name):
        return Risk.CHANGE, f"its name says {word}"
    if word := _first(_SECRET_WORDS, name):
        return Risk.CHANGE, f"it may show secrets: its name says {word}"
    if tool.says_read_only:
        return Risk.READ, "the server says that it only reads"
    return Risk.CHANGE, "the server does not say that it only reads"


def _properties(tool: ForeignTool) -> Mapping[str, object]:
    found = tool.input_schema.get("properties")
    return found if isinstance(found, dict) else {}


def _first(pattern: re.Pattern[str], words: Iterable[str]) -> str:
    return min((word for word in words if pattern.fullmatch(word)), default="")


def _prose(tool: ForeignTool) -> str:
    """Every text of the definition that a model would read."""
    texts = [tool.title, tool.description]
    waiting: list[object] = [tool.input_schema, tool.annotations.get("title", "")]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.values()
        elif isinstance(value, list):
            waiting += value
        elif isinstance(value, str):
            texts.append(value)
    return "\n".join(text for text in texts if text)
