"""Draws a scene: `view(scene, now)` is a picture of that moment, for any width, and nothing else.

Every word of it may come from an alert or a log: it is cleaned, cut, and never read as markup.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from rich import box
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from hermes.cli.incident_scene import Check, Command, Scene, Told, gist
from hermes.cli.render_safe import cells, clean, clip
from hermes.core.events.approvals import ActionAnnounced, ApprovalRequested
from hermes.core.events.incidents import LayerInvestigated
from hermes.sre.incident import Incident
from hermes.sre.report.statements import answer_of, cause_line
from hermes.sre.report.times import lasting

RAIL = ("assess", "reflex", "investigate", "remediate", "verify", "document", "learn")
COMMANDS, CHECKS, NOTICES = 8, 10, 4
SIDE_BY_SIDE = 26
"""Columns that an investigator needs to stand beside another one."""
READ = 2_000
GRAVE = {"P0": "bold white on red", "P1": "bold red", "P2": "bold yellow", "P3": "bold blue"}
ENDINGS = {
    "resolved": ("✅ resolved", "bold green"),
    "escalated": ("📣 escalated", "bold red"),
    "no-incident": ("✓ no incident", "green"),
    "recovered": ("✓ recovered", "green"),
    "closed": ("✓ closed", "green"),
}
MARKS = {
    "asked": ("·", "dim"),
    "waiting": ("?", "bold yellow"),
    "running": ("▶", "bold cyan"),
    "ok": ("✓", "green"),
    "failed": ("✗", "red"),
    "refused": ("⊘", "magenta"),
}


def view(scene: Scene, now: datetime, *, rows: int = 0) -> RenderableType:
    """`rows`: so many lines there are; 0 for as many as it takes."""
    return _View(scene, now, rows)


@dataclass(frozen=True)
class _View:
    """Drawn only when the width is known."""

    scene: Scene
    now: datetime
    rows: int

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width, 20)
        for most in (COMMANDS, 5, 3, 1):
            drawn = Group(*_sections(self.scene, self.now, width, most))
            if not self.rows or _height(console, options, drawn) <= self.rows or most == 1:
                yield drawn
                return


def _height(console: Console, options: ConsoleOptions, drawn: RenderableType) -> int:
    return len(console.render_lines(drawn, options, pad=False))


def _sections(scene: Scene, now: datetime, width: int, most: int) -> Iterator[RenderableType]:
    incident = scene.incident
    if incident is None:
        yield Text("nothing has happened yet", style="dim")
        return
    yield from _header(scene, incident, now, width)
    yield _rail(scene, incident, width)
    yield from _cause(incident, width)
    yield from _layers(list(scene.layers.values()), width)
    yield from _list("commands", _commands(scene, width, most))
    yield from _list("checks", _checks(scene, width, min(most + 2, CHECKS)))
    yield from _waiting(list(scene.waiting.values()), width)
    told = list(scene.notices.values())[-min(most, NOTICES) :]
    yield from _list("notices", (_told(each, width) for each in told))
    yield from _end(incident, width)


def _header(
    scene: Scene, incident: Incident, now: datetime, width: int
) -> Iterator[RenderableType]:
    case = incident.case
    passed = lasting(incident.duration_s(now))
    first = Text(f" {incident.severity} ", style=GRAVE[incident.severity])
    first += Text(" " + _line(case.title, width - 6), style="bold")
    facts = [case.incident, case.service, passed]
    facts += [f"alerts: {incident.alerts}"] if incident.alerts > 1 else []
    facts += [f"model calls: {scene.model_calls}"] if scene.model_calls else []
    facts += [f"acknowledged by {incident.acknowledged_by}"] if incident.acknowledged_by else []
    yield first
    yield Text(_line(" · ".join(fact for fact in facts if fact), width), style="dim")
    if incident.reason:
        yield Text(_line(incident.reason, width), style="dim")


def _rail(scene: Scene, incident: Incident, width: int) -> Text:
    """Phases that were passed, the one that it is in, and those that may come."""
    passed = {entered.phase for entered in scene.phases}
    names = list(RAIL)
    if "undo" in passed:
        names.insert(names.index("document"), "undo")
    rail, used = Text(), 0
    for name in names:
        if name == incident.phase and not scene.over:
            attempt = f" {incident.attempt}" if incident.attempt > 1 else ""
            station, style = f"● {name}{attempt}", "bold cyan"
        else:
            mark, style = ("✓", "green") if name in passed else ("○", "dim")
            station = f"{mark} {name}"
        fits = used + 3 + len(station) <= width
        rail.append((" ─ " if fits else "\n") if used else "", style="dim")
        used = len(station) + (used + 3 if fits and used else 0)
        rail.append(station, style=style)
    return rail


def _cause(incident: Incident, width: int) -> Iterator[RenderableType]:
    found = incident.diagnosis
    if found is None:
        return
    heading, text = cause_line(incident)
    sure = f" ({found.verdict}, {found.confidence:.0%})" if found.mechanism else ""
    yield from _list(heading, [Text(_line(text + sure, width - 2))])


def _layers(layers: Sequence[LayerInvestigated], width: int) -> Iterator[RenderableType]:
    if not layers:
        return
    beside = max(1, min(len(layers), width // SIDE_BY_SIDE))
    yield _title("investigators")
    for at in range(0, len(layers), beside):
        row = layers[at : at + beside]
        grid = Table.grid(expand=True, padding=0)
        for _ in row:
            grid.add_column(ratio=1)
        grid.add_row(*(_layer(each, width // len(row) - 4) for each in row))
        yield grid


def _layer(layer: LayerInvestigated, width: int) -> Panel:
    mark, style = {
        "working": ("…", "cyan"),
        "done": ("✓", "green"),
        "failed": ("✗", "red"),
    }[layer.status]
    said = [_line(finding, width) for finding in layer.findings[:3]]
    if layer.ruled_out:
        said.append(_line(f"not: {'; '.join(layer.ruled_out)}", width))
    if not said:
        said = ["looking" if layer.status == "working" else "nothing of note"]
    title = Text(f"{mark} {_line(layer.layer, max(width - 4, 4))}", style=style)
    return Panel(Text("\n".join(said)), title=title, title_align="left", box=box.ROUNDED)


def _commands(scene: Scene, width: int, most: int) -> Iterator[Text]:
    """What changes something, runs or waits stays in sight; looks give way to later looks."""
    everything = list(scene.commands.values())
    kept = [each for each in everything if each.changes or each.doing in ("waiting", "running")]
    kept = kept[-most:]
    looks = [each for each in everything if each not in kept]
    shown = {each.call_id for each in (*looks[max(0, len(looks) + len(kept) - most) :], *kept)}
    left = len(everything) - len(shown)
    earlier = [f"{left} earlier"] if left > 0 else []
    earlier += [f"playbooks that did not match: {len(scene.declined)}"] if scene.declined else []
    earlier += [f"not checked: {len(scene.unchecked)}"] if scene.unchecked else []
    if earlier:
        yield Text(_line(", ".join(earlier), width - 2), style="dim")
    for each in everything:
        if each.call_id in shown:
            yield from _command(each, width)


def _command(command: Command, width: int) -> Iterator[Text]:
    mark, style = MARKS[command.doing]
    notes = [{"": "", "yes": "undone", "failed": "NOT undone"}[command.taken_back]]
    notes += [command.detail, command.decision, command.who]
    notes += [f"{command.seconds:.1f} s"] if command.seconds else []
    words = _line(" · ".join(note for note in notes if note), max(width // 2, 12))
    change = "✎ " if command.changes else ""
    text = change + _line(
        gist(command.command), max(width - 6 - len(change) - cells(words), width // 2 - 8)
    )
    line = Text(f"{mark} ", style=style)
    line.append(text, style="bold" if command.changes else "")
    line.append(f"  {words}" if words else "", style="dim")
    yield line
    if command.undo and not command.taken_back:
        yield Text(f"  ↩ {_line(command.undo, width - 6)}", style="dim")


def _checks(scene: Scene, width: int, most: int) -> Iterator[Text]:
    """Those that failed at some time; the others were never in doubt, and are counted."""
    doubted = [(name, check) for name, check in scene.checks.items() if not _never_bad(check)]
    for name, check in doubted[:most]:
        line = Text()
        for at, state in enumerate((check.before, check.after, check.trigger)):
            line.append("→" if at and state is not None else "", style="dim")
            line.append(*_light(state))
        detail = "" if check.now else f"  {check.detail}"
        line.append(" " + _line(name + detail, width - 8))
        yield line
    if len(doubted) > most:
        fine = sum(check.now is True for _, check in doubted[most:])
        yield Text(f"and {len(doubted) - most} more, {fine} of them fine", style="dim")
    if others := len(scene.checks) - len(doubted):
        yield Text(f"✓ {others} {'others were' if doubted else 'are'} fine", style="green")


def _never_bad(check: Check) -> bool:
    return False not in (check.before, check.after, check.trigger)


def _light(state: bool | None) -> tuple[str, str]:
    return {True: ("✓", "green"), False: ("✗", "red"), None: ("", "")}[state]


def _waiting(
    asked: Sequence[ApprovalRequested | ActionAnnounced], width: int
) -> Iterator[RenderableType]:
    for each in asked:
        says = "runs unless stopped" if isinstance(each, ActionAnnounced) else "waits for a person"
        answer = "stop" if isinstance(each, ActionAnnounced) else "approve"
        lines = Text(f"? {says}: ", style="bold yellow")
        lines.append(_line(each.shown, width * 2) + "\n")
        lines.append(f"  hermes approvals {answer} {_line(each.approval, 60)}", style="bold")
        if isinstance(each, ApprovalRequested):
            lines.append("   (or deny)", style="dim")
        yield lines


def _told(told: Told, width: int) -> Text:
    where = [f"→ {', '.join(told.sent)}"] if told.sent else []
    where += [f"not yet: {', '.join(told.failing)}"] if told.failing else []
    return Text(_line(f"{told.title}  {' '.join(where)}", width - 2))


def _end(incident: Incident, width: int) -> Iterator[RenderableType]:
    if incident.closed is None and incident.recovered is None:
        return
    answer, status = answer_of(incident), incident.status
    verified = incident.resolved_by_checks or status != "resolved"
    words, style = ENDINGS[status if verified and status in ENDINGS else "closed"]
    end = Text(f"\n{words}", style=style)
    end.append(f" by {_line(str(answer), 40)}" if answer.by != "nobody" else "", style="")
    reason = incident.closed.reason if incident.closed is not None else ""
    reason = incident.recovered.how if incident.recovered is not None else reason
    end.append(f": {_line(reason, width * 2)}" if reason else "", style="")
    if incident.report_path:
        end.append(f"\nreport: {_line(incident.report_path, width - 8)}", style="dim")
    yield end


def _list(title: str, lines: Iterable[Text]) -> Iterator[RenderableType]:
    """Nothing at all where there are no lines."""
    found = list(lines)
    if found:
        yield _title(title)
        for line in found:
            row = Text("  ", no_wrap=True, overflow="ellipsis")
            yield row.append_text(line)


def _title(name: str) -> Text:
    return Text(name, style="bold dim")


def _line(text: str, width: int) -> str:
    return clip(clean(text[:READ]), max(width, 4))
