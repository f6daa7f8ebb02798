"""Traces one alert from its HTTP request to the closed incident, and counts the functions.

usage: PYTHONPATH=src python scripts/alert_trace.py [--json] [--check]

The alert is posted to the real alert server and goes through the bus, the watch, triage, the
commander, a playbook, its verification and the report, in this process, with a journal in memory
and a policy that allows everything. A folder stands for the host.

Counted are the functions of `hermes` that a reader follows from the request to the end: those on
the stack while an event of the alert or its incident is handed to the bus, and those that return
such an event to their caller. Not counted are what they only ask (severity, correlation, folds,
policy, the journal), the parts of `core` below the bus, lambdas and comprehensions. The number of
all functions that ran meanwhile is printed for comparison. `--json` prints the counted functions
as JSON; `--check` fails when there are more than the limits below.
"""

import argparse
import json
import sys
import tempfile
import time
import urllib.request
from dataclasses import replace
from pathlib import Path

import anyio
import anyio.to_thread
from function_trace import FunctionTrace

from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.events.incidents import IncidentClosed
from hermes.core.incident import IncidentDetails
from hermes.environments.local import LocalEnvironment
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.discovery import SkillRoot
from hermes.skills.library import Skill, SkillLibrary
from hermes.sre.checks import open_independent_checks
from hermes.sre.commander import Commander
from hermes.sre.context import IncidentContext
from hermes.sre.coordination import WorkWithdrawal
from hermes.sre.probes.admission import mark_admitted
from hermes.sre.probes.probe import Probe
from hermes.sre.reports.report_file import write_report_file
from hermes.sre.settings import GroupSettings, SreSettings, TriageSettings, VerifySettings
from hermes.sre.triage.triage import Triage
from hermes.sre.watch import IncidentWatch
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal
from hermes.web.alert_server import serve_alerts
from hermes.web.settings import WebSettings

MAX_FUNCTIONS, MAX_FILES = 50, 30
TIMEOUT_S = 60.0
SETTINGS = SreSettings(
    verify=VerifySettings(window=0.2, patience=2.0, every=0.1),
    triage=TriageSettings(group=GroupSettings(delay=0.1)),
    traces=0.0,
)
ALERT = {
    "version": "4",
    "status": "firing",
    "alerts": [
        {
            "labels": {"alertname": "WebDown", "service": "web"},
            "annotations": {"summary": "web is down"},
            "startsAt": "2026-01-01T00:00:00Z",
        }
    ],
}
SKILL = "---\nname: web-down\ndescription: starts web when it is down\n---\nStart it.\n"
PLAYBOOK = """\
version: 1
summary: "web was stopped"
signature:
  words: ["web is down"]
  probes:
    - name: look
      command: test ! -e web-runs && echo unit=web
parameters:
  unit: {from: look, pattern: 'unit=(.+)', default: web}
steps:
  - name: start
    command: "touch web-runs"
    undo: "rm -f web-runs"
verify:
  - name: runs
    command: test -e web-runs
    within: 2
"""


class AllowingPolicy:
    def decide(self, action: Action) -> Decision:
        return Decision(verdict="allow", rule="trace", hash="trace")


class TracedHandler:
    """Handles every incident in one context."""

    def __init__(self, context: IncidentContext) -> None:
        self._context = context

    async def handle(self, details: IncidentDetails, withdrawal: WorkWithdrawal) -> None:
        await Commander(replace(self._context, withdrawal=withdrawal), details).run()

    async def report(self, details: IncidentDetails) -> None:
        await self._context.report(details)


async def trace_alert(home: Path) -> FunctionTrace:
    """Raises `TimeoutError` when the incident is not closed in time."""
    skill = home / "skills" / "web-down"
    skill.mkdir(parents=True)
    (skill / "SKILL.md").write_text(SKILL)
    (skill / "playbook.yaml").write_text(PLAYBOOK)
    library = SkillLibrary([SkillRoot(skill.parent, "user")], {"web-down": "trusted"})
    probe = mark_admitted(
        Probe(name="web", kind="command", what=f"test -e {home}/web-runs", service="web")
    )
    journal, trace = InMemoryJournal(), FunctionTrace()
    bus = Bus(journal)

    async def skills() -> list[Skill]:
        return list(library.skills)

    async def report(details: IncidentDetails) -> None:
        await write_report_file(journal, bus, details.run, home / "incidents")

    async def approve(action: Action, decision: Decision) -> Approval:
        return Approval(approved=True, by="trace")

    async with (
        LocalEnvironment(home, {"PATH": "/usr/bin:/bin"}) as environment,
        anyio.create_task_group() as group,
    ):
        context = IncidentContext(
            bus=bus,
            executor=Executor({"terminal": make_terminal()}, AllowingPolicy(), approve, bus),
            environment=environment,
            artifacts=FileArtifacts(home / "artifacts"),
            settings=SETTINGS,
            skills=skills,
            checks_for=lambda details: open_independent_checks(details, environment, [probe]),
            report=report,
        )
        watch = IncidentWatch(bus, Triage(SETTINGS.triage), TracedHandler(context))
        await group.start(watch.run)
        address = await group.start(serve_alerts, bus, WebSettings(port=0))
        sys.setprofile(trace)
        try:
            with anyio.fail_after(TIMEOUT_S):
                await anyio.to_thread.run_sync(post_alert, f"{address}/alerts")
                while not any(isinstance(each, IncidentClosed) for each in journal.events):
                    await journal.changed(await journal.last())
        finally:
            sys.setprofile(None)
        outcomes = [each.outcome for each in journal.events if isinstance(each, IncidentClosed)]
        group.cancel_scope.cancel()
    if outcomes != ["resolved"]:
        raise RuntimeError(f"the incident was not resolved: {outcomes}")
    return trace


def post_alert(url: str) -> None:
    request = urllib.request.Request(url, json.dumps(ALERT).encode(), method="POST")
    with urllib.request.urlopen(request, timeout=TIMEOUT_S) as answer:
        answer.read()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--check", action="store_true", help="fail when a limit is exceeded")
    chosen = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        trace = anyio.run(trace_alert, Path(folder).resolve())
    by_file: dict[str, list[str]] = {}
    for file, function in trace.counted:
        by_file.setdefault(file, []).append(function)
    functions, files = len(trace.counted), len(by_file)
    if chosen.json:
        figures = {"functions": functions, "files": files, "all_functions": len(trace.all)}
        sys.stdout.write(json.dumps(figures | {"path": by_file}, indent=2) + "\n")
    else:
        for file, names in by_file.items():
            sys.stdout.write(f"{file:40} {', '.join(names)}\n")
        sys.stdout.write(
            f"\n{functions} functions in {files} files "
            f"(at most {MAX_FUNCTIONS} in {MAX_FILES}), {time.monotonic() - began:.1f} s; "
            f"all functions that ran: {len(trace.all)} in "
            f"{len({file for file, _ in trace.all})} files\n"
        )
    return int(chosen.check and (functions > MAX_FUNCTIONS or files > MAX_FILES))


if __name__ == "__main__":
    sys.exit(main())
