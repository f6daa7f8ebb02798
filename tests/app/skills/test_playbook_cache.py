"""The library of those who answer alerts: read before an alert comes, and never out of date."""

from pathlib import Path

import anyio
import anyio.lowlevel
import pytest

from hermes.app.skills.playbook_cache import PlaybookCache
from hermes.core.events.skills import SkillChanged
from hermes.core.incident import AlertFacts
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.settings.load import load

pytestmark = pytest.mark.anyio
PLAYBOOK = """\
summary: "{words}"
signature:
  words: ["{words}"]
  probes: [{{name: look, command: "true"}}]
steps: [{{name: mend, command: "true"}}]
verify: [{{name: works, command: "true"}}]
"""


class Home:
    def __init__(self, folder: Path) -> None:
        self.skills = folder / "skills"
        self.journal = InMemoryJournal()
        self.shelf = PlaybookCache(load(home=folder, variables={}), self.journal)

    def write(self, name: str, words: str) -> None:
        folder = self.skills / name
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "SKILL.md").write_text(f"---\nname: {name}\ndescription: {words}\n---\nHow.\n")
        (folder / "playbook.yaml").write_text(PLAYBOOK.format(words=words))

    async def summary(self, name: str) -> str | None:
        found = [each for each in await self.shelf.skills() if each.name == name]
        return found[0].playbook.summary if found and found[0].playbook else None


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path)


async def test_it_is_read_again_only_when_it_is_another(home: Home) -> None:
    home.write("mine", "one")
    skills = await home.shelf.skills()
    matcher = await home.shelf.index.matcher(skills)
    assert await home.shelf.skills() is skills
    assert await home.shelf.index.matcher(skills) is matcher
    home.write("mine", "another")
    assert await home.summary("mine") == "another"
    assert await home.shelf.index.matcher(await home.shelf.skills()) is not matcher


async def test_a_new_skill_and_one_that_is_gone_are_noticed(home: Home) -> None:
    await home.shelf.fill()
    assert await home.summary("mine") is None
    home.write("mine", "one")
    assert await home.summary("mine") == "one"
    (home.skills / "mine" / "playbook.yaml").unlink()
    assert await home.summary("mine") is None


async def test_trust_that_was_earned_or_lost_meanwhile_counts(home: Home) -> None:
    home.write("mine", "one")
    for state in ("trusted", "draft"):
        await home.journal.append(SkillChanged(run="r", skill="mine", digest="d", state=state))
        matcher = await home.shelf.index.matcher(await home.shelf.skills())
        names = [each.name for each in matcher.candidates(AlertFacts(title="one"))]
        assert ("mine" in names) == (state == "trusted")


async def test_a_file_that_cannot_be_used_keeps_no_other_skill_from_use(home: Home) -> None:
    home.write("mine", "one")
    home.write("huge", "two")
    with (home.skills / "huge" / "playbook.yaml").open("a") as file:
        file.write("# too much\n" * 100_000)
    assert await home.summary("huge") is None
    assert await home.summary("mine") == "one"


async def test_the_loop_goes_on_while_it_is_read(home: Home) -> None:
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await anyio.lowlevel.checkpoint()
            beats += 1

    async with anyio.create_task_group() as group:
        group.start_soon(beat)
        await home.shelf.fill()
        group.cancel_scope.cancel()
    assert beats > 3
