"""What an editor is shown: events of a run as updates of its session."""

import posixpath
from collections.abc import Mapping, Sequence
from typing import Any

import acp
from acp.schema import ToolCallLocation, ToolCallUpdate

from hermes.core.bus import BusItem, Glimpse
from hermes.core.events.approvals import ApprovalRequested
from hermes.core.events.runs import MessageAdded
from hermes.core.events.tools import ToolFinished, ToolRequested, ToolStarted
from hermes.core.foreign_text import escape_invisible, visible_line, visible_text
from hermes.core.knowledge import RECALL_NOTE_PREFIX
from hermes.core.messages import ToolCall, Value
from hermes.core.run_ids import new_id

MAX_TITLE_CHARS = 300
PLAN_TOOL = "todo"
EDIT_TOOLS = frozenset({"write_file", "patch"})
TOOL_KINDS = {
    "read_file": "read",
    "search_files": "search",
    "session_search": "search",
    "write_file": "edit",
    "patch": "edit",
    "terminal": "execute",
    "execute_code": "execute",
    "process": "execute",
    "web_search": "search",
    "web_extract": "fetch",
    "todo": "think",
    "clarify": "think",
}
PLAN_STATES = {"pending": "pending", "doing": "in_progress", "done": "completed"}
RESULT_STATES = {"ok": "completed", "error": "failed", "denied": "failed"}
CUT_NOTE = "CHARACTERS ARE NOT SHOWN"
"""Stands in a request whose action was too long to be shown whole."""

Update = Any
"""An update of the library."""


class WrittenFile(Value, frozen=True):
    """A text file that a tool has written."""

    path: str
    before: str | None
    """None when it is new."""
    after: str


class SessionUpdates:
    """Turns what happens in one run, and in its subagents, into updates."""

    def __init__(self, run: str, folder: str) -> None:
        self._run = run
        self._folder = folder
        self._streamed = {"text": "", "reasoning": ""}
        self._calls: dict[str, ToolRequested] = {}
        self._written: list[WrittenFile] = []

    def note_written(self, file: WrittenFile) -> None:
        """Shown as the difference that its call made."""
        self._written.append(file)

    def from_item(self, item: BusItem, *, replayed: bool = False) -> list[Update]:
        """`replayed`: it is part of a session that is loaded, with the words of the person."""
        if isinstance(item, Glimpse):
            return self._from_glimpse(item) if item.run == self._run else []
        event = item.event
        if event.run != self._run and not event.run.startswith(f"{self._run}/"):
            return []
        match event:
            case MessageAdded() if event.run == self._run:
                return self._from_message(event, replayed)
            case ToolRequested():
                return self.start_call(event)
            case ToolStarted():
                id = call_key(event.run, event.call_id)
                return [acp.update_tool_call(id, status="in_progress")]
            case ToolFinished():
                return self._finish_call(event)
            case _:
                return []

    def start_call(self, event: ToolRequested) -> list[Update]:
        """The first update of a call; empty when it was sent before."""
        key = call_key(event.run, event.call.id)
        if key in self._calls:
            return []
        self._calls[key] = event
        return [
            acp.start_tool_call(
                key,
                call_title(event.call, event.command),
                kind=TOOL_KINDS.get(event.call.name, "other"),
                status="pending",
                locations=self._locations(event.call),
                raw_input=event.call.arguments,
            )
        ]

    def _from_glimpse(self, item: Glimpse) -> list[Update]:
        found: list[Update] = []
        for name, make in CHUNKS.items():
            if text := getattr(item.delta, name):
                self._streamed[name] += text
                found.append(make(text))
        return found

    def _from_message(self, event: MessageAdded, replayed: bool) -> list[Update]:
        message, found = event.message, list[Update]()
        if message.role == "user" and replayed:
            own = not message.text.startswith(RECALL_NOTE_PREFIX)
            return [acp.update_user_message_text(message.text)] if own and message.text else []
        if message.role != "assistant":
            return []
        for name, make in CHUNKS.items():
            whole, shown = getattr(message, name), self._streamed[name]
            self._streamed[name] = ""
            if whole == shown:
                continue
            rest = whole[len(shown) :] if whole.startswith(shown) else f"\n\n{whole}"
            if rest:
                found.append(make(rest))
        return found

    def _finish_call(self, event: ToolFinished) -> list[Update]:
        key = call_key(event.run, event.result.call_id)
        asked = self._calls.pop(key, None)
        if asked is None:
            return []
        content = [*self._differences(asked.call)]
        if event.result.content:
            text = visible_text(event.result.content)
            content.append(acp.tool_content(acp.text_block(fenced(text))))
        status = RESULT_STATES[event.result.status]
        found: list[Update] = [acp.update_tool_call(key, status=status, content=content)]
        if asked.call.name == PLAN_TOOL and event.result.status == "ok" and event.run == self._run:
            found += _plan(asked.call.arguments)
        return found

    def _differences(self, call: ToolCall) -> list[Any]:
        if call.name not in EDIT_TOOLS:
            return []
        named = call.arguments.get("path")
        path = self._absolute(named) if isinstance(named, str) and named else ""
        own = [each for each in self._written if not path or each.path == path]
        self._written = [each for each in self._written if each not in own]
        return [acp.tool_diff_content(each.path, each.after, each.before) for each in own]

    def _locations(self, call: ToolCall) -> list[Any]:
        path = call.arguments.get("path")
        if not isinstance(path, str) or not path or "://" in path:
            return []
        line = call.arguments.get("offset")
        number = line if isinstance(line, int) and line > 0 else None
        return [ToolCallLocation(path=self._absolute(path), line=number)]

    def _absolute(self, path: str) -> str:
        return posixpath.normpath(posixpath.join(self._folder, path))

    def permission_call(
        self, run: str, call: ToolCall, request: ApprovalRequested, before: str | None
    ) -> tuple[Any, bool]:
        """Return what a person is asked about, and whether they see all of it."""
        difference = self._proposed_difference(call, before)
        shown = fenced(escape_invisible(request.shown))
        facts = "\n".join(_request_facts(request))
        text = acp.tool_content(acp.text_block(f"{shown}\n\n{facts}"))
        update = ToolCallUpdate(
            tool_call_id=call_key(run, call.id),
            title=escape_invisible(call_title(call, _first_line(request))),
            kind=TOOL_KINDS.get(call.name, "other"),
            status="pending",
            content=[*difference, text],
            locations=self._locations(call),
            raw_input=call.arguments,
        )
        whole = CUT_NOTE not in request.shown or (call.name == "write_file" and bool(difference))
        return update, whole

    def notice(self, text: str) -> Update:
        """Words of Hermes itself to the person."""
        return acp.update_agent_message_text(f"{text}\n\n")

    def question_call(self, question: str) -> Any:
        """A question of the agent to the person, as a call that can be answered."""
        title = escape_invisible(question)
        return ToolCallUpdate(tool_call_id=new_id("question"), title=title, kind="think")

    def _proposed_difference(self, call: ToolCall, before: str | None) -> list[Any]:
        given = call.arguments
        path = given.get("path")
        if not isinstance(path, str) or not path:
            return []
        after, old = given.get("content"), before
        if call.name == "patch":
            after, old = given.get("new", ""), given.get("old")
            if not isinstance(old, str) or not old:
                return []
        if call.name not in EDIT_TOOLS or not isinstance(after, str):
            return []
        return [acp.tool_diff_content(self._absolute(path), after, old)]


CHUNKS = {
    "reasoning": acp.update_agent_thought_text,
    "text": acp.update_agent_message_text,
}
"""The parts of an answer, and the update that shows each."""


def call_key(run: str, call_id: str) -> str:
    """Calls of subagents may have the same number as ours."""
    below = run.partition("/")[2]
    return f"{below}:{call_id}" if below else call_id


def call_title(call: ToolCall, command: str = "") -> str:
    given = call.arguments
    texts = (command, given.get("command"), given.get("path"), *given.values())
    subject = next((each for each in texts if isinstance(each, str) and each.strip()), "")
    if command or given.get("command"):
        return visible_line(subject, MAX_TITLE_CHARS)
    return visible_line(f"{call.name} {subject}".strip(), MAX_TITLE_CHARS)


def fenced(text: str) -> str:
    """A block of code that its own text cannot end."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def _first_line(request: ApprovalRequested) -> str:
    return request.shown if "\n" not in request.shown and request.tool == "terminal" else ""


def _request_facts(request: ApprovalRequested) -> list[str]:
    facts = [f"effects: {', '.join(request.effects)}"] if request.effects else []
    facts.append(f"rule {request.rule}" + (f": {request.reason}" if request.reason else ""))
    facts.append(f"undo: {request.undo or 'no undo known'}")
    facts += [f"where: {request.place}"] if request.place else []
    facts += [request.tested] if request.tested else []
    return [f"- {escape_invisible(each)}" for each in facts]


def _plan(arguments: Mapping[str, Any]) -> list[Update]:
    items = arguments.get("items")
    if not isinstance(items, Sequence):
        return []
    entries = [
        acp.plan_entry(visible_line(str(each.get("text", ""))), status=PLAN_STATES[status])
        for each in items
        if isinstance(each, Mapping) and (status := each.get("status", "pending")) in PLAN_STATES
    ]
    return [acp.update_plan(entries)]
