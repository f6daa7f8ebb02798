"""What was done in a run and what came of it: commands, edits, fixes that held or did not."""

import re
from collections.abc import Iterable, Iterator
from datetime import datetime

from hermes.core.events.tools import ToolDecided, ToolFinished, ToolRequested, ToolStarted
from hermes.core.messages import Value
from hermes.core.protocols import Recorded
from hermes.memory.facts.entities import about, error_lines, moment_in, signature
from hermes.memory.facts.fact import Candidate, one_line
from hermes.memory.facts.hostile import ends_of

_CHANGES = frozenset({"write", "delete", "service-change", "self-change", "exec-dynamic"})
_CHANGING = re.compile(
    r"\b(?:systemctl|service)\s+(?:-\S+\s+)*(?:\S+\s+)?(?:re)?(?:start|stop|load)\b"
    r"|\b(?:restart|reload|rm|mv|cp|ln|chmod|chown|truncate|kill|pkill|tee|install|mkdir|sed\s+-i\S*"
    r"|(?:apt|apt-get|yum|dnf|pip|npm)\s+(?:install|remove|upgrade))\b"
    r"|\bkubectl\s+(?:apply|delete|edit|patch|scale|rollout|set|create|replace)\b"
    r"|\bdocker\s+(?:restart|start|stop|rm|run|compose)\b|(?<![<>&\d])>{1,2}\s*[\w/.~-]"
)
_EDITED = re.compile(
    r"\b(?:sed\s+(?:-\S+\s+)*-i\S*\s+(?:'[^']*'|\"[^\"]*\"|\S+)\s+|(?:vi|vim|nano|emacs)\s+"
    r"|tee\s+(?:-a\s+)?)(?P<file>/[\w./@+-]+)"
    r"|(?<![<>&\d])>{1,2}\s*(?P<into>/etc/[\w./@+-]+)"
    r"|\bkubectl\s+(?:-\S+\s+)*edit\s+(?P<object>[\w./-]+(?:\s+[\w.-]+)?)"
)
_EXIT = re.compile(r"\[exit (-?\d+)\b")
_WRITERS = frozenset({"write_file", "patch"})


class Deed(Value, kw_only=True, frozen=True):
    """One tool call, from the wish to the result."""

    tool: str
    shown: str
    requested: int
    finished: int
    at: datetime
    output: str
    failed: bool
    exit: int | None = None
    changing: bool = False
    path: str = ""


def deeds_of(records: Iterable[Recorded]) -> list[Deed]:
    """Calls that really ran, in the order in which they ended."""
    wished: dict[str, tuple[int, ToolRequested]] = {}
    effects: dict[str, tuple[str, ...]] = {}
    started: set[str] = set()
    found: list[Deed] = []
    for recorded in records:
        match recorded.event:
            case ToolRequested() as event:
                wished[event.call.id] = (recorded.seq, event)
            case ToolDecided() as event:
                effects[event.call_id] = event.effects
            case ToolStarted() as event:
                started.add(event.call_id)
            case ToolFinished() as event if event.result.call_id in started:
                wish = wished.get(event.result.call_id)
                if wish is not None:
                    told = effects.get(event.result.call_id, ())
                    found.append(_deed(wish, recorded.seq, event, told))
    return found


def _deed(
    wish: tuple[int, ToolRequested], seq: int, event: ToolFinished, effects: tuple[str, ...]
) -> Deed:
    requested, call = wish[0], wish[1].call
    command = str(call.arguments.get("command") or wish[1].command)
    path = str(call.arguments.get("path") or "") if call.name in _WRITERS else ""
    status = _EXIT.search(event.result.content[-200:])
    exit_code = int(status[1]) if status else (0 if event.result.status == "ok" else None)
    changing = bool(path) or bool(set(effects) & _CHANGES) or _changes(command, effects)
    return Deed(
        tool=call.name,
        shown=one_line(command or f"{call.name} {path}".strip(), 200),
        requested=requested,
        finished=seq,
        at=event.at,
        output=ends_of(event.result.content),
        failed=event.result.status != "ok" or bool(exit_code),
        exit=exit_code,
        changing=changing,
        path=path,
    )


def _changes(command: str, effects: tuple[str, ...]) -> bool:
    return not effects and bool(_CHANGING.search(command))


def failures(deeds: Iterable[Deed]) -> Iterator[Candidate]:
    """Commands that failed, and errors in what they and others printed."""
    for deed in deeds:
        lines = list(error_lines(deed.output))
        if deed.failed and deed.tool == "terminal":
            why = f": {signature(lines[0])}" if lines else ""
            yield Candidate(
                memory="episodic",
                text=f"`{deed.shown}` exits {deed.exit}{why}",
                quote=one_line(lines[0], 300) if lines else "",
                sources=(deed.requested, deed.finished),
                about=about(f"{deed.shown}\n{lines[0] if lines else ''}"),
                relation="command-failed",
                at=deed.at,
            )
        for line in lines:
            yield Candidate(
                memory="episodic",
                text=f"error: {signature(line)}",
                quote=one_line(line, 300),
                sources=(deed.finished,),
                about=about(f"{line}\n{deed.shown}"),
                relation="error",
                at=moment_in(line, deed.at),
            )


def edits(deeds: Iterable[Deed]) -> Iterator[Candidate]:
    """Files and objects that the agent edited: what keeps coming back is found by these."""
    for deed in deeds:
        if deed.failed:
            continue
        found = [deed.path] if deed.path else []
        for match in _EDITED.finditer(deed.shown):
            found.append(match["file"] or match["into"] or match["object"])
        for what in dict.fromkeys(found):
            yield Candidate(
                memory="episodic",
                text=f"{what} was edited by the agent",
                quote=deed.shown,
                sources=(deed.requested, deed.finished),
                about=(what,),
                relation="edited",
                at=deed.at,
            )


def remediations(deeds: list[Deed]) -> Iterator[Candidate]:
    """A check that failed, a change, and the same check again: did the change help?"""
    failing: dict[str, Deed] = {}
    changed: list[Deed] = []
    for deed in deeds:
        if deed.changing:
            if not deed.failed:
                changed.append(deed)
            continue
        before = failing.get(deed.shown)
        since = [change for change in changed if before and change.finished > before.finished]
        if before is not None and since:
            yield _outcome(before, since[-1], deed)
        if deed.failed:
            failing[deed.shown] = deed
        else:
            failing.pop(deed.shown, None)


def _outcome(before: Deed, change: Deed, after: Deed) -> Candidate:
    lines = list(error_lines(before.output, most=1))
    why = f" ({signature(lines[0], 100)})" if lines else ""
    said = "did not mend" if after.failed else "mended"
    return Candidate(
        memory="episodic",
        text=f"`{change.shown}` {said} `{before.shown}`{why}",
        quote=one_line(lines[0], 300) if lines else "",
        sources=(before.finished, change.finished, after.finished),
        about=about(f"{before.shown}\n{change.shown}\n{lines[0] if lines else ''}"),
        relation="did-not-fix" if after.failed else "fixed-by",
        at=after.at,
    )
