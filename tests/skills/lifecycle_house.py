"""A home whose skills live, and replays that say what a test wants."""

from pathlib import Path

from compiler_house import a_home

from hermes.app.lifecycle import Lives
from hermes.app.skills import states_in
from hermes.core.bus import Bus
from hermes.core.events.skills import SkillState
from hermes.memory.in_memory import InMemoryJournal
from hermes.skills.cards import Root
from hermes.skills.distill.writing import Distilled
from hermes.skills.format.digest import digest_of
from hermes.skills.library import Library
from hermes.skills.lifecycle.replay import Case, Replayed

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
) -> Distilled:
    return Distilled(
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
        self.lives = Lives(loaded, self.journal, Bus(self.journal).publish, self.library)

    def library(self) -> Library:
        return Library([Root(self.root, "user")], self.states)

    async def state(self, skill: str) -> str:
        self.states = await states_in(self.journal)
        return self.states[skill]

    async def proven(self, folder: Path, *, seconds: float = 1.0) -> bool:
        async def replay(case: Case, using: bool) -> Replayed:
            return Replayed(solved=True, seconds=seconds if using else 10.0)

        cases = [Case(name="disk-full", seed=seed) for seed in (1, 2)]
        judgement, _ = await self.lives.prove(folder, cases, replay, run="gate")
        return judgement.passed

    async def trusted(self, name: str) -> Path:
        drafted = await self.lives.draft(distilled(name), run="run-1")
        assert await self.proven(drafted.folder)
        for number in (1, 2):
            digest = digest_of(drafted.folder)
            await self.lives.used(name, digest, verified=True, run="live", incident=f"i-{number}")
        assert await self.state(name) == "trusted"
        return drafted.folder
