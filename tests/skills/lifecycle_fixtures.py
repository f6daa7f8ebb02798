"""A home whose skills live, and replays that say what a test wants."""

from pathlib import Path

from compiler_fixtures import a_home

from hermes.app.skills.library import read_skill_states
from hermes.app.skills.lifecycle import SkillLifecycle
from hermes.core.bus import Bus
from hermes.core.events.skills import SkillState
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.discovery import SkillRoot
from hermes.skills.distill.distillation import DistilledSkill
from hermes.skills.format import compute_skill_digest
from hermes.skills.library import SkillLibrary
from hermes.skills.lifecycle.evaluation import ReplayCase, ReplayResult

PLAYBOOK = """\
version: 1
summary: a full disk
signature:
  words: [{words}]
  probes:
    - name: look
      command: df /
steps:
  - name: cut
    command: {command}
verify:
  - name: check
    command: df / | grep -v 100%
"""


def distilled(
    name: str, words: str = "disk full", command: str = "truncate -s 0 /var/log/x.log"
) -> DistilledSkill:
    return DistilledSkill(
        name=name,
        description=f"Mends: {words}. Cuts a log that fills the disk.",
        body="# Cut it\n",
        playbook=PLAYBOOK.format(words=words, command=command),
        case='{"run": "r"}\n',
    )


class Home:
    def __init__(self, folder: Path) -> None:
        self.loaded = loaded = a_home(folder, **{"skills.live_uses": "2"})
        self.journal = InMemoryJournal()
        self.root = loaded.home / "skills"
        self.states: dict[str, SkillState] = {}
        self.lives = SkillLifecycle(loaded, self.journal, Bus(self.journal).publish, self.library)

    def library(self) -> SkillLibrary:
        return SkillLibrary([SkillRoot(self.root, "user")], self.states)

    async def state(self, skill: str) -> str:
        self.states = await read_skill_states(self.journal)
        return self.states[skill]

    async def proven(self, folder: Path, *, seconds: float = 1.0) -> bool:
        async def replay(case: ReplayCase, using: bool) -> ReplayResult:
            return ReplayResult(solved=True, seconds=seconds if using else 10.0)

        cases = [ReplayCase(name="disk-full", seed=seed) for seed in (1, 2)]
        judgement, _ = await self.lives.evaluate(folder, cases, replay, run="gate")
        return judgement.passed

    async def trusted(self, name: str) -> Path:
        drafted = await self.lives.draft(distilled(name), run="run-1")
        assert await self.proven(drafted.folder)
        for number in (1, 2):
            digest = compute_skill_digest(drafted.folder)
            await self.lives.record_use(
                name, digest, verified=True, run="live", incident=f"i-{number}"
            )
        assert await self.state(name) == "trusted"
        return drafted.folder
