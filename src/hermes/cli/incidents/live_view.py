"""Renders a live incident with rich, for any width.

The texts come from alerts and logs: they are cleaned, cut, and never parsed as markup.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hermes.cli.incidents.live_state import (
    LiveCommand,
    LiveIncident,
    LiveNotification,
    main_line,
)
from hermes.cli.render.terminal_text import clean, clip, display_width
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested
from hermes.core.events.incidents import LayerInvestigated
from hermes.core.incident import Incident
from hermes.plumbing.units import format_duration
from hermes.sre.reports.experiments import (
    ended_text,
    experiment_outcome,
    experiment_phase,
    experiment_subject,
    started_text,
)
from hermes.sre.reports.statements import cause_line, resolver_of

PHASES = ("assess", "reflex", "investigate", "remediate", "verify", "document", "learn")
MAX_COMMAND_ROWS, MAX_CHECK_ROWS, MAX_NOTIFICATION_ROWS = 8, 10, 4
MIN_PANEL_COLUMNS = 26
"""Minimum width of an investigator panel beside another one."""
MAX_LINE_CHARACTERS = 2_000
SEVERITY_STYLES = {
    "P0": "bold white on red",
    "P1": "bold red",
    "P2": "bold yellow",
    "P3": "bold blue",
}
OUTCOME_STYLES = {
    "resolved": ("✅ resolved", "bold green"),
    "escalated": ("📣 escalated", "bold red"),
    "no-incident": ("✓ no incident", "green"),
    "recovered": ("✓ recovered", "green"),
    "closed": ("✓ closed", "green"),
}
OUTCOME_MARKS = {"fails": ("✗", "red"), "passes": ("✓", "green")}
"""Of an experiment: whether the fault shows on the copy."""
COMMAND_MARKS = {
    "asked": ("·", "dim"),
    "waiting": ("?", "bold yellow"),
    "running": ("▶", "bold cyan"),
    "ok": ("✓", "green"),
    "failed": ("✗", "red"),
    "refused": ("⊘", "magenta"),
}


def render_live_view(live: LiveIncident, now: datetime, *, rows: int = 0) -> RenderableType:
    """`rows` is the available height; 0 for unlimited."""
    return _LiveView(live, now, rows)


@dataclass(frozen=True)
class _LiveView:
    """Renders itself when rich knows the width."""

    live: LiveIncident
    now: datetime
    rows: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width, 20)
        for max_rows in (MAX_COMMAND_ROWS, 5, 3, 1):
            content = Group(*_sections(self.live, self.now, width, max_rows))
            height = len(console.render_lines(content, options, pad=False)) if self.rows else 0
            if height <= self.rows or max_rows == 1:
                yield content
                return


def _sections(
    live: LiveIncident, now: datetime, width: int, max_rows: int
) -> Iterator[RenderableType]:
    incident = live.incident
    if incident is None:
        yield Text("nothing has happened yet", style="dim")
        return
    yield from _header(live, incident, now, width)
    yield _phase_line(live, incident, width)
    yield from _cause_section(live, incident, width)
    yield from _titled_list("experiments on copies", _experiment_rows(live, width, max_rows))
    yield from _layer_panels(list(live.layers.values()), width)
    yield from _titled_list("commands", _command_rows(live, width, max_rows))
    yield from _titled_list("checks", _check_rows(live, width, min(max_rows + 2, MAX_CHECK_ROWS)))
    yield from _approval_section(list(live.waiting.values()), width)
    recent = list(live.notices.values())[-min(max_rows, MAX_NOTIFICATION_ROWS) :]
    yield from _titled_list("notifications", (_notification_row(each, width) for each in recent))
    yield from _outcome_section(incident, width)


def _header(
    live: LiveIncident, incident: Incident, now: datetime, width: int
) -> Iterator[RenderableType]:
    details = incident.details
    passed = format_duration(incident.duration_s(now))
    first = Text(f" {incident.severity} ", style=SEVERITY_STYLES[incident.severity])
    first += Text(" " + _clip_line(details.title, width - 6), style="bold")
    facts = [details.incident, details.service, passed]
    facts += [f"alerts: {incident.alerts}"] if incident.alerts > 1 else []
    facts += [f"model calls: {live.model_calls}"] if live.model_calls else []
    facts += [f"acknowledged by {incident.acknowledged_by}"] if incident.acknowledged_by else []
    yield first
    yield Text(_clip_line(" · ".join(fact for fact in facts if fact), width), style="dim")
    if incident.reason:
        yield Text(_clip_line(incident.reason, width), style="dim")


def _phase_line(live: LiveIncident, incident: Incident, width: int) -> Text:
    """The passed phases, the current one, and those that may follow."""
    passed = {entered.phase for entered in live.phases}
    names = list(PHASES)
    if "undo" in passed:
        names.insert(names.index("document"), "undo")
    line, used = Text(), 0
    for name in names:
        if name == incident.phase and not live.is_over:
            attempt = f" {incident.attempt}" if incident.attempt > 1 else ""
            text, style = f"● {name}{attempt}", "bold cyan"
        else:
            mark, style = ("✓", "green") if name in passed else ("○", "dim")
            text = f"{mark} {name}"
        fits = used + 3 + len(text) <= width
        line.append((" ─ " if fits else "\n") if used else "", style="dim")
        used = len(text) + (used + 3 if fits and used else 0)
        line.append(text, style=style)
    return line


def _cause_section(live: LiveIncident, incident: Incident, width: int) -> Iterator[RenderableType]:
    found = incident.diagnosis
    if found is None:
        return
    heading, text = cause_line(incident)
    sure = f" ({found.verdict}, {found.confidence:.0%})" if found.mechanism else ""
    yield from _titled_list(heading, [Text(_clip_line(text + sure, width - 2))])


def _layer_panels(layers: Sequence[LayerInvestigated], width: int) -> Iterator[RenderableType]:
    if not layers:
        return
    beside = max(1, min(len(layers), width // MIN_PANEL_COLUMNS))
    yield _title("investigators")
    for at in range(0, len(layers), beside):
        row = layers[at : at + beside]
        grid = Table.grid(expand=True, padding=0)
        for _ in row:
            grid.add_column(ratio=1)
        grid.add_row(*(_layer_panel(each, width // len(row) - 4) for each in row))
        yield grid


def _layer_panel(layer: LayerInvestigated, width: int) -> Panel:
    mark, style = {"working": ("…", "cyan"), "done": ("✓", "green"), "failed": ("✗", "red")}[
        layer.status
    ]
    lines = [_clip_line(finding, width) for finding in layer.findings[:3]]
    if layer.ruled_out:
        lines.append(_clip_line(f"not: {'; '.join(layer.ruled_out)}", width))
    if not lines:
        lines = ["checking" if layer.status == "working" else "nothing notable"]
    title = Text(f"{mark} {_clip_line(layer.layer, max(width - 4, 4))}", style=style)
    return Panel(Text("\n".join(lines)), title=title, title_align="left", box=box.ROUNDED)


def _command_rows(live: LiveIncident, width: int, max_rows: int) -> Iterator[Text]:
    """Changes and running or waiting commands stay; other commands give way to later ones."""
    everything = list(live.commands.items())
    kept = [id for id, each in everything if each.changes or each.state in ("waiting", "running")]
    kept = kept[-max_rows:]
    others = [id for id, _ in everything if id not in kept]
    shown = {*others[max(0, len(others) + len(kept) - max_rows) :], *kept}
    left = len(everything) - len(shown)
    earlier = [f"{left} earlier"] if left > 0 else []
    earlier += [f"playbooks that did not match: {len(live.declined)}"] if live.declined else []
    earlier += [f"not checked: {len(live.unchecked)}"] if live.unchecked else []
    if earlier:
        yield Text(_clip_line(", ".join(earlier), width - 2), style="dim")
    for id, each in everything:
        if id in shown:
            yield from _command_row(each, width)


def _command_row(command: LiveCommand, width: int) -> Iterator[Text]:
    mark, style = COMMAND_MARKS[command.state]
    notes = [{"": "", "yes": "undone", "failed": "NOT undone"}[command.undone]]
    notes += [command.detail, command.decision, command.who]
    notes += [f"{command.seconds:.1f} s"] if command.seconds else []
    words = _clip_line(" · ".join(note for note in notes if note), max(width // 2, 12))
    change = "✎ " if command.changes else ""
    text = change + _clip_line(
        main_line(command.command),
        max(width - 6 - len(change) - display_width(words), width // 2 - 8),
    )
    line = Text(f"{mark} ", style=style)
    line.append(text, style="bold" if command.changes else "")
    line.append(f"  {words}" if words else "", style="dim")
    yield line
    if command.undo and not command.undone:
        yield Text(f"  ↩ {_clip_line(command.undo, width - 6)}", style="dim")


def _experiment_rows(live: LiveIncident, width: int, max_rows: int) -> Iterator[Text]:
    """The suspects, the latest experiments, and the result."""
    started, shown = live.suspects, live.experiments[-max_rows - 2 :]
    if started is not None:
        yield Text(_clip_line(started_text(started), width - 2), style="dim")
    if hidden := len(live.experiments) - len(shown):
        yield Text(f"{hidden} earlier", style="dim")
    for each in shown:
        mark, style = OUTCOME_MARKS.get(each.outcome, ("?", "yellow"))
        line = Text(f"{mark} ", style=style)
        line.append(f"{experiment_phase(each):10} ", style="bold")
        words = f"{experiment_subject(each)}: {experiment_outcome(each)}"
        line.append(_clip_line(f"{words}, {each.seconds:.1f} s", width - 16))
        yield line
    if live.experiments_ended is not None:
        style = "bold green" if live.experiments_ended.status == "proved" else "yellow"
        yield Text(_clip_line(ended_text(live.experiments_ended), width - 2), style=style)


def _check_rows(live: LiveIncident, width: int, max_rows: int) -> Iterator[Text]:
    """The checks that have failed; the others are only counted."""
    doubted = [
        (name, check)
        for name, check in live.checks.items()
        if False in (check.before, check.after, check.trigger)
    ]
    for name, check in doubted[:max_rows]:
        line = Text()
        for at, state in enumerate((check.before, check.after, check.trigger)):
            line.append("→" if at and state is not None else "", style="dim")
            line.append(*_check_mark(state))
        detail = "" if check.latest else f"  {check.detail}"
        line.append(" " + _clip_line(name + detail, width - 8))
        yield line
    if len(doubted) > max_rows:
        fine = sum(check.latest is True for _, check in doubted[max_rows:])
        yield Text(f"and {len(doubted) - max_rows} more, {fine} of them fine", style="dim")
    if others := len(live.checks) - len(doubted):
        yield Text(f"✓ {others} {'others were' if doubted else 'are'} fine", style="green")


def _check_mark(state: bool | None) -> tuple[str, str]:
    return {True: ("✓", "green"), False: ("✗", "red"), None: ("", "")}[state]


def _approval_section(
    asked: Sequence[ApprovalRequested | ActionAnnounced], width: int
) -> Iterator[RenderableType]:
    for each in asked:
        status = (
            "runs unless stopped" if isinstance(each, ActionAnnounced) else "waits for a person"
        )
        answer = "stop" if isinstance(each, ActionAnnounced) else "approve"
        lines = Text(f"? {status}: ", style="bold yellow")
        lines.append(_clip_line(each.shown, width * 2) + "\n")
        lines.append(f"  hermes approvals {answer} {_clip_line(each.approval, 60)}", style="bold")
        if isinstance(each, ApprovalRequested):
            lines.append("   (or deny)", style="dim")
        yield lines


def _notification_row(notification: LiveNotification, width: int) -> Text:
    where = [f"→ {', '.join(notification.sent)}"] if notification.sent else []
    where += [f"not yet: {', '.join(notification.failing)}"] if notification.failing else []
    return Text(_clip_line(f"{notification.title}  {' '.join(where)}", width - 2))


def _outcome_section(incident: Incident, width: int) -> Iterator[RenderableType]:
    if incident.closed is None and incident.recovered is None:
        return
    answer, status = resolver_of(incident), incident.status
    verified = incident.resolved_by_checks or status != "resolved"
    words, style = OUTCOME_STYLES[status if verified and status in OUTCOME_STYLES else "closed"]
    end = Text(f"\n{words}", style=style)
    end.append(f" by {_clip_line(str(answer), 40)}" if answer.by != "nobody" else "", style="")
    reason = incident.closed.reason if incident.closed is not None else ""
    reason = incident.recovered.how if incident.recovered is not None else reason
    end.append(f": {_clip_line(reason, width * 2)}" if reason else "", style="")
    if incident.report_path:
        end.append(f"\nreport: {_clip_line(incident.report_path, width - 8)}", style="dim")
    yield end


def _titled_list(title: str, lines: Iterable[Text]) -> Iterator[RenderableType]:
    """The title and the lines; nothing when there are no lines."""
    found = list(lines)
    if found:
        yield _title(title)
        for line in found:
            row = Text("  ", no_wrap=True, overflow="ellipsis")
            yield row.append_text(line)


def _title(name: str) -> Text:
    return Text(name, style="bold dim")


def _clip_line(text: str, width: int) -> str:
    return clip(clean(text[:MAX_LINE_CHARACTERS]), max(width, 4))
