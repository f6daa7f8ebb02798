"""A playbook played in a real shell: what it does, where it stops, how it goes back."""

import os
from pathlib import Path

import pytest

from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.events.skills import PlaybookEnded, PlaybookStarted, PlaybookStepped
from hermes.core.incident import AlertFacts
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.environments.local import LocalEnvironment
from hermes.environments.settings import TerminalSettings
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.playbook.commands import ExecuteCall, PlaybookContext, busy_timeout
from hermes.skills.playbook.reader import parse_playbook
from hermes.skills.playbook.runner import PlaybookRunner, PlaybookRunResult
from hermes.skills.playbook.schema import Playbook
from hermes.tools.executor import Executor
from hermes.tools.terminal import terminal

pytestmark = pytest.mark.anyio


def book(folder: Path, **changed: str) -> Playbook:
    """Mends a file; each part can be told to do something else."""
    parts = {
        "probe": "cat state",
        "expect": "{contains: broken}",
        "step": "cp state saved; echo fixed > state",
        "undo": "cp saved state",
        "second": "echo second >> log",
        "second_undo": "echo undone >> log",
        "verify": "grep -q fixed state",
        "timeout": "10",
    } | changed
    text = f"""
summary: fixes
signature:
  probes:
    - {{name: confirm, command: 'cd {folder}; {parts["probe"]}', expect: {parts["expect"]}}}
parameters:
  service: {{from: alert, labels: [service], kind: word, default: none}}
  how: {{from: confirm, pattern: 'how=(\\S+)', kind: word, default: plain}}
steps:
  - name: mend
    command: 'cd {folder}; {parts["step"]}'
    undo: 'cd {folder}; {parts["undo"]}'
    timeout: {parts["timeout"]}
  - name: note
    command: 'cd {folder}; {parts["second"]}; echo {{{{service}}}} {{{{how}}}} >> log'
    undo: 'cd {folder}; {parts["second_undo"]}'
verify:
  - {{name: works, command: 'cd {folder}; {parts["verify"]}', within: 0.3}}
""".replace("echo {{service}} {{how}} >> log'", "echo {{service}} {{how}} >> log'")
    playbook, problems = parse_playbook(text)
    assert playbook is not None, problems
    return playbook


class Rules:
    """Allows everything but what has a forbidden word in it."""

    def __init__(self, forbidden: str = "") -> None:
        self.forbidden = forbidden

    def decide(self, action: Action) -> Decision:
        command = str(action.call.arguments.get("command", ""))
        denied = bool(self.forbidden) and self.forbidden in command
        return Decision(verdict="deny" if denied else "allow", rule="test")


async def nobody(action: Action, decision: Decision) -> Approval:
    return Approval(approved=False, by="nobody")


class RunnerSetup:
    def __init__(self, folder: Path, forbidden: str = "") -> None:
        self.folder = folder
        self.journal = InMemoryJournal()
        self.bus = Bus(self.journal)
        self.executor = Executor({"terminal": terminal}, Rules(forbidden), nobody, self.bus)
        self.place = LocalEnvironment(folder, {"PATH": os.defpath}, settings=TerminalSettings())
        (folder / "state").write_text("broken how=fast\n")

    def road(self) -> ExecuteCall:
        context = ToolContext(
            run="r",
            environment=self.place,
            publish=self.bus.publish,
            call=lambda call: self.executor.execute(call, context),
            artifacts=FileArtifacts(self.folder / "artifacts"),
        )

        async def execute(call: ToolCall) -> ToolResult:
            return await self.executor.execute(call, context)

        return execute

    def runner(self, playbook: Playbook) -> PlaybookRunner:
        return PlaybookRunner(
            "fixes", playbook, PlaybookContext(self.road(), self.bus.publish, "r")
        )

    async def play(
        self, playbook: Playbook, facts: AlertFacts | None = None, *, dry: bool = False
    ) -> PlaybookRunResult:
        async with self.place:
            return await self.runner(playbook).run(facts or AlertFacts(), dry=dry)

    @property
    def state(self) -> str:
        return (self.folder / "state").read_text()

    @property
    def log(self) -> str:
        file = self.folder / "log"
        return file.read_text() if file.exists() else ""


async def test_it_probes_acts_and_checks_and_all_of_it_is_journalled(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    played = await setup.play(book(tmp_path), AlertFacts(labels={"service": "orders"}))
    assert (played.outcome, setup.state) == ("applied", "fixed\n")
    assert setup.log == "second\norders fast\n"
    events = setup.journal.events
    steps = [(e.phase, e.step, e.ok) for e in events if isinstance(e, PlaybookStepped)]
    assert steps == [
        ("probe", "confirm", True),
        ("step", "mend", True),
        ("step", "note", True),
        ("verify", "works", True),
    ]
    (started,) = [e for e in events if isinstance(e, PlaybookStarted)]
    assert dict(started.parameters) == {"service": "orders", "how": "fast"}
    (ended,) = [e for e in events if isinstance(e, PlaybookEnded)]
    assert (ended.outcome, ended.steps) == ("applied", 2)


async def test_nothing_is_changed_when_a_probe_does_not_confirm(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    played = await setup.play(book(tmp_path, expect="{contains: something else}"))
    assert (played.outcome, played.step) == ("declined", "confirm")
    assert "lacks 'something else'" in played.detail
    assert setup.state == "broken how=fast\n"
    assert not played.changed


@pytest.mark.parametrize(
    ("probe", "why"),
    [
        ("echo unchecked=no systemctl on this host", "no systemctl on this host"),
        ("no-such-program-here", "no no-such-program-here on this host"),
        ("sleep 60", "timed out"),
        ("cat state", ""),
    ],
)
async def test_a_signature_that_could_not_be_looked_for_is_not_called_absent(
    tmp_path: Path, probe: str, why: str
) -> None:
    setup = RunnerSetup(tmp_path)
    playbook = book(tmp_path, probe=probe, expect="{contains: something else}, timeout: 1")
    played = await setup.play(playbook)
    assert played.outcome == "declined"
    (ended,) = [e for e in setup.journal.events if isinstance(e, PlaybookEnded)]
    assert ended.unchecked == played.unchecked
    assert why in ended.unchecked and bool(why) == bool(ended.unchecked)


async def test_it_stops_at_the_first_step_that_does_not_do_what_it_should(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    played = await setup.play(book(tmp_path, step="echo half > state; exit 3"))
    assert (played.outcome, played.step) == ("unmet", "mend")
    assert "exit code 3" in played.detail
    assert setup.log == ""


async def test_a_step_that_hangs_is_ended_and_told(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    played = await setup.play(book(tmp_path, step="sleep 6000", timeout="1"))
    assert (played.outcome, played.step) == ("unmet", "mend")
    assert "timed out" in played.detail


async def test_a_rule_that_says_no_ends_it(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path, forbidden="second")
    played = await setup.play(book(tmp_path))
    assert (played.outcome, played.step) == ("refused", "note")
    assert [each.name for each in played.done if each.phase == "step"] == ["mend"]


async def test_a_check_that_does_not_hold_is_not_called_applied(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    played = await setup.play(book(tmp_path, verify="grep -q perfect state"))
    assert (played.outcome, played.step) == ("unmet", "works")


async def test_undo_goes_backwards_and_brings_the_old_state_back(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    playbook = book(tmp_path, verify="false")
    async with setup.place:
        runner = setup.runner(playbook)
        undone = await runner.undo(await runner.run(AlertFacts()))
    assert undone.outcome == "undone"
    assert setup.state == "broken how=fast\n"
    names = [each.name for each in undone.done if each.phase == "undo"]
    assert names == ["note", "mend"]


async def test_an_undo_that_fails_is_told_and_keeps_no_other(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    playbook = book(tmp_path, verify="false", second_undo="exit 9")
    async with setup.place:
        runner = setup.runner(playbook)
        undone = await runner.undo(await runner.run(AlertFacts()))
    assert (undone.outcome, undone.not_undone) == ("failed", ("note",))
    assert setup.state == "broken how=fast\n"
    ended = [e for e in setup.journal.events if isinstance(e, PlaybookEnded)][-1]
    assert ended.not_undone == ("note",)


async def test_a_missing_parameter_is_told_before_anything_is_run(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    playbook, _ = parse_playbook(
        "summary: s\nsignature: {probes: [{name: p, command: 'true {{service}}'}]}\n"
        "parameters: {service: {from: alert, labels: [service]}}\n"
        "steps: [{name: s1, command: 'true'}]\nverify: [{name: v, command: 'true'}]\n"
    )
    assert playbook is not None
    played = await setup.play(playbook)
    assert (played.outcome, played.done) == ("declined", ())
    assert "service is missing" in played.detail
    assert "service is missing" in played.unchecked
    wrong = await setup.play(playbook, AlertFacts(labels={"service": "-rf /"}))
    assert "is not a valid word" in wrong.detail


async def test_a_dry_run_looks_and_tells_but_changes_nothing(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    played = await setup.play(book(tmp_path), dry=True)
    assert (played.outcome, played.dry, played.changed) == ("applied", True, False)
    assert setup.state == "broken how=fast\n"
    assert "echo none fast >> log" in next(d.command for d in played.done if d.name == "note")


async def test_each_run_keeps_its_copies_in_a_folder_of_its_own(tmp_path: Path) -> None:
    setup = RunnerSetup(tmp_path)
    undo = "dirname {{kept}}/x >> kept"
    for _ in range(2):
        async with setup.place:
            runner = setup.runner(book(tmp_path, verify="false", undo=undo))
            await runner.undo(await runner.run(AlertFacts()))
        (tmp_path / "state").write_text("broken how=fast\n")
    kept = (tmp_path / "kept").read_text().splitlines()
    assert len(set(kept)) == 2
    assert all(path.startswith("/var/tmp/hermes-undo/") for path in kept)


async def test_signs_of_a_shell_in_an_alert_reach_no_command(tmp_path: Path) -> None:
    text = f"""
summary: looks
signature:
  probes:
    - {{name: look, command: 'cd {tmp_path}; printf "%s" {{{{alert}}}} > heard'}}
parameters:
  alert: {{from: alert, pattern: '[\\s\\S]+', kind: text}}
steps:
  - {{name: mend, command: 'true', risk: read}}
verify:
  - {{name: works, command: 'true'}}
"""
    playbook, problems = parse_playbook(text)
    assert playbook is not None, problems
    await RunnerSetup(tmp_path).play(playbook, AlertFacts(title="`web` and $(reboot) are \\ red"))
    assert (tmp_path / "heard").read_text() == "web  and  (reboot) are   red"


@pytest.mark.parametrize(
    ("result", "why"),
    [
        (
            ToolResult(call_id="c", content="[timed out after 15.0 s and was ended]"),
            "timed out after",
        ),
        (
            ToolResult(call_id="c", content="no process could be started", status="error"),
            "it could not be run",
        ),
        (ToolResult(call_id="c", content="a rule says no", status="denied"), "not allowed"),
    ],
)
async def test_services_that_could_not_be_listed_are_not_taken_for_none(
    tmp_path: Path, result: ToolResult, why: str
) -> None:
    async def execute(call: ToolCall) -> ToolResult:
        return result

    playbook = book(tmp_path, probe="{{is_active service}}")
    bus = Bus(InMemoryJournal())
    runner = PlaybookRunner("fixes", playbook, PlaybookContext(execute, bus.publish))
    found = await runner.check_signature(AlertFacts(title="", text=""))
    assert found.unchecked.startswith(f"the services could not be listed: {why}")
    assert not found.program_missing, "it is worth another look"


async def test_services_of_a_supervisor_that_does_not_answer_are_not_taken_for_none(
    tmp_path: Path,
) -> None:
    async def execute(call: ToolCall) -> ToolResult:
        kinds = "comm" in str(call.arguments["command"]) and "echo kind=" in str(call.arguments)
        said = "kind=supervisord" if kinds else "note=supervisord runs and does not answer"
        return ToolResult(call_id=call.id, content=f"{said}\n")

    playbook = book(tmp_path, probe="{{is_active service}}")
    bus = Bus(InMemoryJournal())
    runner = PlaybookRunner("fixes", playbook, PlaybookContext(execute, bus.publish))
    found = await runner.check_signature(AlertFacts(title="", text=""))
    why = "the services could not be listed: supervisord runs and does not answer"
    assert found.unchecked == why


@pytest.mark.parametrize(("load", "factor"), [(0.1, 1.0), (2.5, 2.5), (90.0, 4.0)])
def test_reading_commands_get_more_time_on_a_busy_machine(
    load: float, factor: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load * (os.cpu_count() or 1), 0.0, 0.0))
    assert busy_timeout(10.0) == 10.0 * factor
