"""Extracts candidate facts from the events of a run: commands, edits, fixes and statements."""

import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice

from hermes.core.events.runs import MessageAdded, RunStarted, TurnStarted, TurnUndone
from hermes.core.events.tools import ToolFinished
from hermes.core.foreign_text import one_line
from hermes.core.knowledge import SYSTEM_NOTE_PREFIX
from hermes.core.messages import Value
from hermes.core.protocols import JournalRecord
from hermes.core.tool_calls import RecordedCall, fold_finished_calls
from hermes.memory.facts.entities import entities_in, error_lines, error_signature, time_in_line
from hermes.memory.facts.fact import FactCandidate
from hermes.memory.facts.prompt_injection import asks_to_be_remembered, head_and_tail
from hermes.memory.facts.statements import dependency_facts, user_statements

_CHANGING_EFFECTS = frozenset({"write", "delete", "service-change", "self-change", "exec-dynamic"})
_CHANGING_COMMAND = re.compile(
    r"\b(?:systemctl|service)\s+(?:-\S+\s+)*(?:\S+\s+)?(?:re)?(?:start|stop|load)\b"
    r"|\b(?:restart|reload|rm|mv|cp|ln|chmod|chown|truncate|kill|pkill|tee|install|mkdir|sed\s+-i\S*"
    r"|(?:apt|apt-get|yum|dnf|pip|npm)\s+(?:install|remove|upgrade))\b"
    r"|\bkubectl\s+(?:apply|delete|edit|patch|scale|rollout|set|create|replace)\b"
    r"|\bdocker\s+(?:restart|start|stop|rm|run|compose)\b|(?<![<>&\d])>{1,2}\s*[\w/.~-]"
)
_EDITED_FILE = re.compile(
    r"\b(?:sed\s+(?:-\S+\s+)*-i\S*\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s+|(?:vi|vim|nano|emacs)\s+"
    r"|tee\s+(?:-a\s+)?)(?P<file>/[\w./@+-]+)"
    r"|(?<![<>&\d])>{1,2}\s*(?P<into>/etc/[\w./@+-]+)"
    r"|\bkubectl\s+(?:-\S+\s+)*edit\s+(?P<object>[\w./-]+(?:\s+[\w.-]+)?)"
)
_EXIT_STATUS = re.compile(r"\[exit (-?\d+)\b")
_WRITING_TOOLS = frozenset({"write_file", "patch"})


class ExecutedCall(Value, kw_only=True, frozen=True):
    """One tool call, from the request to the result."""

    tool: str
    command_line: str
    requested_seq: int
    finished_seq: int
    at: datetime
    output: str
    failed: bool
    exit_code: int | None = None
    is_change: bool = False
    path: str = ""


def executed_calls(records: Iterable[JournalRecord]) -> list[ExecutedCall]:
    """Calls that really ran, in the order in which they ended."""
    return [
        _executed_call(call, finish)
        for call, finish in fold_finished_calls(records)
        if call.start is not None
    ]


def _executed_call(call: RecordedCall, finish: ToolFinished) -> ExecutedCall:
    given, result, effects = call.request.call.arguments, finish.result, call.effects
    command = str(given.get("command") or call.request.command)
    path = str(given.get("path") or "") if call.name in _WRITING_TOOLS else ""
    status = _EXIT_STATUS.search(result.content[-200:])
    exit_code = int(status[1]) if status else (0 if result.status == "ok" else None)
    changing = (
        bool(path) or bool(set(effects) & _CHANGING_EFFECTS) or _looks_like_change(command, effects)
    )
    return ExecutedCall(
        tool=call.name,
        command_line=one_line(command or f"{call.name} {path}".strip(), 200),
        requested_seq=call.requested_seq,
        finished_seq=call.finished_seq,
        at=finish.at,
        output=head_and_tail(result.content),
        failed=result.status != "ok" or bool(exit_code),
        exit_code=exit_code,
        is_change=changing,
        path=path,
    )


def _looks_like_change(command: str, effects: tuple[str, ...]) -> bool:
    return not effects and bool(_CHANGING_COMMAND.search(command))


def failure_facts(calls: Iterable[ExecutedCall]) -> Iterator[FactCandidate]:
    """Commands that failed, and errors in the output of all commands."""
    for call in calls:
        lines = list(error_lines(call.output))
        if call.failed and call.tool == "terminal":
            why = f": {error_signature(lines[0])}" if lines else ""
            yield FactCandidate(
                memory="episodic",
                text=f"`{call.command_line}` exits {call.exit_code}{why}",
                quote=one_line(lines[0], 300) if lines else "",
                sources=(call.requested_seq, call.finished_seq),
                about=entities_in(f"{call.command_line}\n{lines[0] if lines else ''}"),
                relation="command-failed",
                at=call.at,
            )
        for line in lines:
            yield FactCandidate(
                memory="episodic",
                text=f"error: {error_signature(line)}",
                quote=one_line(line, 300),
                sources=(call.finished_seq,),
                about=entities_in(f"{line}\n{call.command_line}"),
                relation="error",
                at=time_in_line(line, call.at),
            )


def edit_facts(calls: Iterable[ExecutedCall]) -> Iterator[FactCandidate]:
    """Files and objects that the agent edited: recurring work is found by these."""
    for call in calls:
        if call.failed:
            continue
        found = [call.path] if call.path else []
        for match in _EDITED_FILE.finditer(call.command_line):
            found.append(match["file"] or match["into"] or match["object"])
        for what in dict.fromkeys(found):
            yield FactCandidate(
                memory="episodic",
                text=f"{what} was edited by the agent",
                quote=call.command_line,
                sources=(call.requested_seq, call.finished_seq),
                about=(what,),
                relation="edited",
                at=call.at,
            )


def fix_facts(calls: list[ExecutedCall]) -> Iterator[FactCandidate]:
    """A check that failed, a change, and the same check again: did the change help?"""
    failing: dict[str, ExecutedCall] = {}
    changed: list[ExecutedCall] = []
    for call in calls:
        if call.is_change:
            if not call.failed:
                changed.append(call)
            continue
        before = failing.get(call.command_line)
        since = [
            change for change in changed if before and change.finished_seq > before.finished_seq
        ]
        if before is not None and since:
            yield _fix_outcome(before, since[-1], call)
        if call.failed:
            failing[call.command_line] = call
        else:
            failing.pop(call.command_line, None)


def _fix_outcome(before: ExecutedCall, change: ExecutedCall, after: ExecutedCall) -> FactCandidate:
    lines = list(error_lines(before.output, max_lines=1))
    why = f" ({error_signature(lines[0], 100)})" if lines else ""
    outcome = "did not fix" if after.failed else "fixed"
    return FactCandidate(
        memory="episodic",
        text=f"`{change.command_line}` {outcome} `{before.command_line}`{why}",
        quote=one_line(lines[0], 300) if lines else "",
        sources=(before.finished_seq, change.finished_seq, after.finished_seq),
        about=entities_in(
            f"{before.command_line}\n{change.command_line}\n{lines[0] if lines else ''}"
        ),
        relation="did-not-fix" if after.failed else "fixed-by",
        at=after.at,
    )


MAX_CANDIDATES = 60
"""Candidates of one extraction: more would be a log, and logs are searched."""
MAX_HOSTILE_LINES = 3
MEMORY_TOOLS = frozenset({"memory", "recall", "session_search", "todo", "clarify"})
"""Tools that answer with what is known already: learning from them would be an echo."""
PERSON_ORIGINS = ("cli", "python", "chat")


def extract_candidates(records: Sequence[JournalRecord]) -> list[FactCandidate]:
    calls = [call for call in executed_calls(records) if call.tool not in MEMORY_TOOLS]
    found = (
        *_stated_facts(records),
        *fix_facts(calls),
        *edit_facts(calls),
        *_output_facts(calls),
        *failure_facts(calls),
    )
    return list(islice(_without_duplicates(found), MAX_CANDIDATES))


def _stated_facts(records: Sequence[JournalRecord]) -> Iterator[FactCandidate]:
    """Return what people said, in runs with a person."""
    begun = next((r.event for r in records if isinstance(r.event, RunStarted)), None)
    if begun is not None and (begun.parent or begun.origin not in PERSON_ORIGINS):
        return
    undone = {r.event.turn for r in records if isinstance(r.event, TurnUndone)}
    turn, before = 0, ""
    for recorded in records:
        event = recorded.event
        if isinstance(event, TurnStarted):
            turn = event.turn
        if not isinstance(event, MessageAdded) or turn in undone:
            continue
        text = event.message.text
        if event.message.role == "assistant":
            before = text
        elif event.message.role == "user" and not text.startswith(SYSTEM_NOTE_PREFIX):
            yield from user_statements(text, recorded.seq, event.at, before)
            yield from dependency_facts(text[:20_000], recorded.seq, event.at, "person")


def _output_facts(calls: Iterable[ExecutedCall]) -> Iterator[FactCandidate]:
    """Return what outputs say about the system they come from; requests in them are only kept as
    such."""
    for call in calls:
        lines = [line for line in call.output.splitlines() if asks_to_be_remembered(line[:2_000])]
        for line in lines[:MAX_HOSTILE_LINES]:
            yield FactCandidate(
                memory="episodic",
                text=f"`{call.command_line}` printed: {one_line(line, 300)}",
                quote=one_line(line, 300),
                sources=(call.finished_seq,),
                relation="asks-to-be-kept",
                trust="quarantined",
                at=call.at,
            )
        if not lines:
            yield from dependency_facts(call.output, call.finished_seq, call.at, "system")


def _without_duplicates(found: Iterable[FactCandidate]) -> Iterator[FactCandidate]:
    seen: set[tuple[str, tuple[int, ...]]] = set()
    for candidate in found:
        mark = candidate.id, candidate.sources
        if mark not in seen:
            seen.add(mark)
            yield candidate
