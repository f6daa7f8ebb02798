"""A folder that plays the host: files are what is well or not, playbooks append to a ledger."""

from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import anyio

from hermes.core.actions import Action, Approval, Decision
from hermes.core.bus import Bus
from hermes.core.errors import HermesError
from hermes.core.events.incidents import AlertRaised, IncidentOpened
from hermes.core.incident import IncidentDetails, incident_details
from hermes.core.protocols import Journal
from hermes.environments.local import LocalEnvironment
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.discovery import SkillOrigin, SkillRoot
from hermes.skills.library import Skill, SkillLibrary
from hermes.sre.cause import CauseFinder, FixTester
from hermes.sre.checks import CheckResult, IndependentChecks
from hermes.sre.commander import Commander, IncidentResult
from hermes.sre.context import IncidentContext
from hermes.sre.model_responder import ModelResponder
from hermes.sre.settings import SreSettings, VerifySettings
from hermes.tools.executor import Executor
from hermes.tools.terminal import make_terminal

Kind = TypeVar("Kind")
FIX = ("touch well-web", "rm -f well-web")
QUICK = SreSettings(
    verify=VerifySettings(window=0.05, patience=0.2, every=0.02, timeout=60.0),
    time_limit=60.0,
    traces=0.01,
)
PLAYBOOK = """\
version: 1
summary: "{name} is put right"
signature:
  words: ["{name} is down"]
  probes:
    - name: look
      command: test ! -f well-{fixes} && echo unit={fixes} && echo seen
parameters:
  unit: {{from: look, pattern: 'unit=(.+)', default: {fixes}}}
steps:
{steps}
verify:
  - name: done
    command: "true"
    within: 0.1
"""
STEP = """\
  - name: step{number}
    timeout: {timeout}
    command: "echo {name}-{number} >> ledger; {command}"
    undo: "echo undo-{name}-{number} >> ledger; {undo}"
"""


class Rules:
    """Looks are free, and known as such; the rest is allowed, or asked about."""

    def __init__(self, *, ask: bool) -> None:
        self._ask = ask

    def decide(self, action: Action) -> Decision:
        command = str(action.call.arguments.get("command", ""))
        looks = command.startswith(("test ", "cat ", "systemctl show", "true"))
        asks = self._ask and ("ledger" in command or "restart" in command)
        return Decision(
            verdict="ask" if asks else "allow",
            rule="test",
            effects=("read",) if looks else ("write",),
            hash="x",
        )


@dataclass
class Host:
    """What one test has in its hands."""

    folder: Path
    journal: Journal = field(default_factory=InMemoryJournal)
    settings: SreSettings = QUICK
    responder: ModelResponder | None = None
    finder: CauseFinder | None = None
    tester: FixTester | None = None
    reported: list[str] = field(default_factory=list)
    learned: list[str] = field(default_factory=list)
    watched: tuple[str, ...] = ("web",)
    slow: bool = False
    answers: bool = True
    """Whether people say yes, where they are asked."""
    answers_after: float = 0.0
    questions: list[str] = field(default_factory=list)
    """The commands that people were asked about."""
    origin: SkillOrigin = "user"
    """Where the playbooks come from."""
    trouble: str = ""
    """Why no report can be made."""

    async def person(self, action: Action, decision: Decision) -> Approval:
        self.questions.append(str(action.call.arguments["command"]))
        await anyio.sleep(self.answers_after)
        return Approval(approved=self.answers, by="ann" if self.answers else "nobody")

    def playbook(
        self, name: str, *commands: tuple[str, str], fixes: str = "web", timeout: float = 30.0
    ) -> None:
        """Each command with its way back."""
        steps = "".join(
            STEP.format(number=number, name=name, command=command, undo=undo, timeout=timeout)
            for number, (command, undo) in enumerate(commands, start=1)
        )
        skill = self.folder / "skills" / name
        skill.mkdir(parents=True)
        (skill / "SKILL.md").write_text(
            f"---\nname: {name}\ndescription: fixes {name} when it is down\n---\nHow to.\n"
        )
        (skill / "playbook.yaml").write_text(PLAYBOOK.format(name=name, steps=steps, fixes=fixes))

    @property
    def ledger(self) -> list[str]:
        file = self.folder / "ledger"
        return file.read_text().split() if file.exists() else []

    def well(self, name: str = "web") -> bool:
        return (self.folder / f"well-{name}").exists()

    async def skills(self) -> Sequence[Skill]:
        folder = self.folder / "skills"
        names = [each.name for each in folder.iterdir()] if folder.is_dir() else []
        return SkillLibrary(
            [SkillRoot(folder, self.origin)], dict.fromkeys(names, "trusted")
        ).skills

    async def checks_for(self, case: IncidentDetails) -> IndependentChecks:
        async def check() -> Sequence[CheckResult]:
            if self.slow:
                return [CheckResult(check="web", ok=False, detail="gave no answer within 2 s")]
            return [CheckResult(check=name, ok=self.well(name)) for name in self.watched]

        return check

    async def report(self, case: IncidentDetails) -> None:
        if self.trouble:
            raise HermesError(self.trouble)
        self.reported.append(case.incident)

    async def learn(self, case: IncidentDetails) -> None:
        self.learned.append(case.incident)

    async def open_incident(self, name: str = "incident-1") -> IncidentDetails:
        """An alert and its incident, in the journal."""
        opened = IncidentOpened(
            run=name,
            incident=name,
            title="web is down",
            severity="P1",
            service="web",
            facts=(("text", "nobody answers"),),
        )
        bus = Bus(self.journal)
        await bus.publish(AlertRaised(run="watch", fingerprint="web", title="web is down"), opened)
        return incident_details(opened)

    @asynccontextmanager
    async def context(self) -> AsyncGenerator[IncidentContext, None]:
        bus = Bus(self.journal)
        tools = {"terminal": make_terminal()}
        asks = not self.answers or self.answers_after > 0
        async with LocalEnvironment(self.folder, {"PATH": "/usr/bin:/bin"}) as place:
            yield IncidentContext(
                bus=bus,
                executor=Executor(tools, Rules(ask=asks), self.person, bus),
                environment=place,
                artifacts=FileArtifacts(self.folder / "artifacts"),
                settings=self.settings,
                skills=self.skills,
                checks_for=self.checks_for,
                responder=self.responder,
                cause_finder=self.finder,
                fix_tester=self.tester,
                report=self.report,
                learn=self.learn,
            )


async def run_commander(host: Host) -> IncidentResult:
    case = await host.open_incident()
    async with host.context() as context:
        return await Commander(context, case).run()


def events(host: Host, kind: type[Kind]) -> list[Kind]:
    assert isinstance(host.journal, InMemoryJournal)
    return [event for event in host.journal.events if isinstance(event, kind)]
