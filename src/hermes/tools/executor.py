"""The executor: every tool call is decided, approved, run and recorded here."""

import time
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
)
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import Literal

import msgspec

from hermes.core.actions import (
    Action,
    Approval,
    Approver,
    BlockedAccess,
    DecidesAgain,
    Decision,
    Policy,
    TracksActions,
    TracksText,
    argument_text,
    why_changed,
)
from hermes.core.bus import Bus
from hermes.core.errors import HermesError, StoreError, ToolError, innermost_error
from hermes.core.events import Event
from hermes.core.events.tools import (
    ToolApproved,
    ToolBlocked,
    ToolFinished,
    ToolRequested,
    ToolStarted,
)
from hermes.core.messages import Picture, Risk, ToolCall, ToolResult, ToolSpec
from hermes.core.plugins import BUILT_IN
from hermes.core.protocols import (
    ConfinesCommands,
    DefinedByOthers,
    HasStatePerRun,
    Tool,
    ToolContext,
    provides,
)
from hermes.tools.action_description import (
    build_action,
    decided_event,
    origin_of,
    requested_event,
)
from hermes.tools.declare import ChecksArguments

CALL_TOOL = "tool_call"
"""The tool that calls those which are not shown."""


def is_found_by_search(tool: Tool) -> bool:
    return getattr(tool, "found_by_search", False) is True


class LayeredTools(Mapping[str, Tool]):
    """Tools by name, in layers read at each call. A later layer hides an earlier one of the same
    name, but no built-in: the policy judges these by their names. `replaced`: names that our own
    code replaces."""

    def __init__(self, *layers: Mapping[str, Tool], replaced: Collection[str] = ()) -> None:
        self._layers = layers
        self._kept = BUILT_IN["tools"].keys() - set(replaced)

    def __getitem__(self, name: str) -> Tool:
        for layer in self._layers if name in self._kept else reversed(self._layers):
            if name in layer:
                return layer[name]
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter({name: None for layer in self._layers for name in layer})

    def __len__(self) -> int:
        return sum(1 for _ in self)


MAX_PREVIEW_CHARS = 12_000
"""Characters of a result that the model sees; the whole text is kept as an artifact."""

MAX_BLOCKED_SHOWN = 5
"""Refusals of the kernel that one result shows; all are in the journal."""

REDACTION_PREFIX = "«redacted:"
"""The prefix of a redacted secret. Written back, it would replace the real one."""

BeforeAction = Callable[[Action, Decision], Awaitable[str]]
"""Called and awaited before an allowed action runs; returns why it must not run after all."""

FindSecret = Callable[[str, str], str]
"""Returns the name of a secret that a text contains and that is not configured for the origin
(`https://host:port`; empty: none); empty when there is none."""

SECRET_RULE = "secrets-stay-here"
_SENDING_EFFECTS = frozenset({"network-read", "network-out"})


class Executor:
    """`redact` removes secrets from tool results, before journal, artifact and model; `find_secret`
    finds them in arguments that would leave this host."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        policy: Policy,
        approver: Approver,
        bus: Bus,
        *,
        redact: Callable[[str], str] = str,
        before: BeforeAction | None = None,
        find_secret: FindSecret | None = None,
    ) -> None:
        self._tools = tools
        self._find_secret = find_secret
        self.policy = policy
        self._approver = approver
        self._bus = bus
        self._redact = redact
        self._before = before
        self._record_start = policy.record_start if isinstance(policy, TracksActions) else None
        self._record_text = policy.record_text if isinstance(policy, TracksText) else None

    @property
    def specs(self) -> list[ToolSpec]:
        """What the model is shown; it finds other tools by `tool_search`."""
        return [tool.spec for tool in self._tools.values() if not is_found_by_search(tool)]

    @property
    def classed_reads(self) -> frozenset[str]:
        """Tools that a person classed as reading: declared in YAML, or reviewed."""
        return frozenset(
            name
            for name, tool in self._tools.items()
            if isinstance(tool, DefinedByOthers) and tool.spec.risk is Risk.READ
        )

    def with_only(self, names: set[str]) -> "Executor":
        """The same checks with fewer tools, for a subagent."""
        kept = {
            name: tool
            for name, tool in self._tools.items()
            if name in names or (is_found_by_search(tool) and CALL_TOOL in names)
        }
        return self._copy(kept)

    def with_tool(self, tool: Tool) -> "Executor":
        """The same checks with one more tool."""
        name = tool.spec.name
        return self._copy(LayeredTools(self._tools, {name: tool}, replaced=(name,)))

    def with_hook(self, before: BeforeAction) -> "Executor":
        """The same checks; `before` is called for each allowed action before it runs."""
        return self._copy(self._tools, before=before)

    def with_policy(self, policy: Policy) -> "Executor":
        """The same checks under stricter rules."""
        return self._copy(self._tools, policy=policy)

    def _copy(
        self,
        tools: Mapping[str, Tool],
        *,
        policy: Policy | None = None,
        before: BeforeAction | None = None,
    ) -> "Executor":
        return Executor(
            tools,
            policy or self.policy,
            self._approver,
            self._bus,
            redact=self._redact,
            before=before or self._before,
            find_secret=self._find_secret,
        )

    async def execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
        context = replace(
            context, call=lambda inner: self.execute(inner, context), redact=self._redact
        )
        started = time.monotonic()
        tool = self._tools.get(call.name)
        if provides(tool, HasStatePerRun):
            tool = tool.of_run(context.run)
        unusable = _unusable_reason(call, tool, self._tools)
        if tool is None or unusable:
            await self._bus.publish(ToolRequested(run=context.run, call=call))
            result = ToolResult(call_id=call.id, status="error", content=unusable)
        else:
            refusal, action, decision = await self._refusal(call, tool, context)
            if refusal:
                result = ToolResult(call_id=call.id, status="denied", content=refusal)
            else:
                result = await self._run(tool, context, action, decision)
        await self._bus.publish(
            ToolFinished(run=context.run, result=result, seconds=time.monotonic() - started)
        )
        return result

    async def _refusal(
        self, call: ToolCall, tool: Tool, context: ToolContext
    ) -> tuple[str, Action, Decision]:
        """Return why the call may not run, for the model; empty when it may, and then its start is
        recorded.

        The returned decision is the latest one, which holds for the run.
        """
        action, run = await build_action(call, tool, context), context.run
        decision = self._keep_secrets(action, self.policy.decide(action))
        requested, decided = requested_event(action), decided_event(action, decision)
        if decision.verdict == "allow" and self._before is None:  # one commit, the common case
            await self._begin(action, decision, requested, decided)
            return "", action, decision
        await self._bus.publish(requested, decided)
        if decision.verdict == "allow":
            return await self._begin(action, decision), action, decision
        if decision.verdict != "ask":
            return _refusal_text(decision, f"a rule says {decision.verdict}"), action, decision
        answer = await self._ask(action, decision)
        approved = ToolApproved(
            run=run,
            call_id=call.id,
            approved=answer.approved,
            by=answer.by,
            scope=answer.scope,
            reason=self._redact(answer.reason),
        )
        refusal, decision = self._after_answer(action, decision, answer)
        await self._bus.publish(approved)
        if not refusal:
            refusal = await self._begin(action, decision)
        return refusal, action, decision

    async def _ask(self, action: Action, decision: Decision) -> Approval:
        if isinstance(self._approver, DecidesAgain):
            return await self._approver.approve(action, decision, self.policy.decide)
        return await self._approver(action, decision)

    def _keep_secrets(self, action: Action, decision: Decision) -> Decision:
        """Deny the action where a secret would leave to a host that it is not for; otherwise return
        the decision unchanged."""
        if self._find_secret is None or decision.verdict == "deny":
            return decision
        if action.remote is None and _SENDING_EFFECTS.isdisjoint(decision.effects):
            return decision
        text = f"{argument_text(action.call.arguments)}\n{action.command}"
        name = self._find_secret(text, origin_of(action.request.url) if action.request else "")
        if not name:
            return decision
        reason = f"its arguments contain the value of {name}, which is not for this host"
        return msgspec.structs.replace(decision, verdict="deny", rule=SECRET_RULE, reason=reason)

    async def _begin(self, action: Action, decision: Decision, *events: Event) -> str:
        """Record `events` and the start, and return why the action does not begin; empty when it
        does."""
        if self._before is not None and (why := await self._before(action, decision)):
            return f"Not run: {why}"
        started = ToolStarted(
            run=action.run, call_id=action.call.id, risk=action.risk, effects=decision.effects
        )
        await self._bus.publish(*events, started)
        if self._record_start is not None:
            self._record_start(action)
        return ""

    def _after_answer(
        self, action: Action, decision: Decision, answer: Approval
    ) -> tuple[str, Decision]:
        """Return why it does not run after all: a no, or a yes to something that has changed
        since."""
        if not answer.approved:
            unanswered = answer.by == "nobody"
            why = "there is nobody to approve it" if unanswered else f"{answer.by} said no"
            return _refusal_text(decision, answer.reason or why), decision
        again = self.policy.decide(action)
        changed = why_changed(decision, again)
        return (_refusal_text(again, changed), again) if changed else ("", decision)

    async def _run(
        self, tool: Tool, context: ToolContext, action: Action, decision: Decision
    ) -> ToolResult:
        status: Literal["ok", "error"] = "error"
        call, blocked, pictures = action.call, list[BlockedAccess](), list[Picture]()
        context = replace(context, add_picture=partial(_add_picture, context, call.id, pictures))
        try:
            async with _confined_context(context, decision, blocked) as within:
                text, status = await tool(within, call.arguments), "ok"
        except Exception as error:  # a broken tool must not end the run
            cause = innermost_error(error)
            if isinstance(cause, StoreError):
                raise cause from error  # without a journal nothing may continue
            text = str(cause)
            if not isinstance(cause, HermesError):
                text = f"the tool itself failed: {type(cause).__name__}: {cause}"
        if blocked:
            await self._bus.publish(*_blocked_events(action, decision, blocked))
        if shown := [each for each in blocked if not each.optional]:
            text = f"{text}\n{_blocked_note(decision, shown)}"
        text = self._redact(text)
        if self._record_text is not None:
            self._record_text(context.run, text, False, call)
        if len(text) <= MAX_PREVIEW_CHARS:
            result = ToolResult(call_id=call.id, status=status, content=text)
        else:
            result = await _result_with_preview(call, status, text, context)
        return msgspec.structs.replace(result, pictures=tuple(pictures)) if pictures else result


async def _add_picture(
    context: ToolContext, call_id: str, pictures: list[Picture], data: bytes, alt: str
) -> Picture:
    storage = import_module("hermes.tools.picture_storage")  # few calls have pictures
    await storage.add_result_picture(context, call_id, pictures, data, alt)
    return pictures[-1]


@asynccontextmanager
async def _confined_context(
    context: ToolContext, decision: Decision, blocked: list[BlockedAccess]
) -> AsyncGenerator[ToolContext, None]:
    """The context in which a tool's commands are confined to the verdict; unchanged without one.

    Where nothing can be enforced, the decision says so, and was made with that knowledge.
    """
    environment, profile = context.environment, decision.profile
    enforced = decision.enforced in ("yes", "partly")
    if profile is None or not enforced or not provides(environment, ConfinesCommands):
        yield context
        return
    async with environment.confined(profile) as within:
        try:
            yield replace(context, environment=within)
        finally:
            blocked += within.collect()


def _blocked_events(
    action: Action, decision: Decision, found: Iterable[BlockedAccess]
) -> list[ToolBlocked]:
    command = action.command or str(action.call.arguments.get("command", action.call.name))
    judged = decision.profile.describe if decision.profile else ""
    return [
        ToolBlocked(
            run=action.run,
            call_id=action.call.id,
            what=each.what,
            program=each.program,
            reason=each.reason,
            command=command,
            judged=judged,
            rule=decision.rule,
            optional=each.optional,
        )
        for each in found
    ]


def _blocked_note(decision: Decision, found: list[BlockedAccess]) -> str:
    judged = decision.profile.describe if decision.profile else ""
    shown = [
        f"[blocked: {each}; the command was judged {judged}]" for each in found[:MAX_BLOCKED_SHOWN]
    ]
    more = len(found) - len(shown)
    return "\n".join([*shown, *([f"[and {more} more]"] if more else [])])


def _refusal_text(decision: Decision, how: str) -> str:
    because = f"; {decision.reason}" if decision.reason else ""
    return (
        f"Not run: {how} (rule {decision.rule}{because}). Do not try it again in other words; say "
        "what you would need and why, or find a way that only reads."
    )


async def _result_with_preview(
    call: ToolCall, status: Literal["ok", "error"], text: str, context: ToolContext
) -> ToolResult:
    half = MAX_PREVIEW_CHARS // 2
    try:
        reference = await context.artifacts.save(context.run, call.id, text)
    except StoreError as error:  # a full disk must not end the work of examining it
        content = f"{text[:half]}\n\n[… characters left out; {error} …]\n\n{text[-half:]}"
        return ToolResult(call_id=call.id, status=status, content=content)
    return ToolResult(
        call_id=call.id,
        status=status,
        content=f"{text[:half]}\n\n[… {len(text) - 2 * half:,} characters left out; the whole text "
        f"({len(text):,}) is {reference}, which read_file opens …]\n\n{text[-half:]}",
        artifact=reference,
    )


def _unusable_reason(call: ToolCall, tool: Tool | None, known: Iterable[str]) -> str:
    """Return what is wrong with a call that cannot be run, before a person is asked to approve
    it."""
    if tool is None:
        return f"there is no tool {call.name!r}; there are: {', '.join(sorted(known))}"
    if call.malformed:
        return (
            f"the arguments of {call.name} were not a JSON object: {call.malformed[:500]!r}. "
            "Send the call again with valid JSON."
        )
    if REDACTION_PREFIX in str(call.arguments):
        return (
            f"the arguments of {call.name} hold {REDACTION_PREFIX}…, a stand-in for a secret that "
            "you were not shown. Leave that part as it is (patch the lines around it), or name a "
            "variable."
        )
    try:
        if provides(tool, ChecksArguments):
            tool.validate(call.arguments)
    except ToolError as error:
        return str(error)
    return ""
