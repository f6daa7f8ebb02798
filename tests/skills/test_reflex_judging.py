"""Reflexes under the eye of somebody who sees the whole host; played in a real shell."""

import os
from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest

from hermes.core.messages import ToolCall, ToolResult
from hermes.core.protocols import ToolContext
from hermes.environments.local import LocalEnvironment
from hermes.environments.settings import TerminalSettings
from hermes.memory.artifacts import FileArtifacts
from hermes.skills.playbook.facts import Facts
from hermes.skills.playbook.reading import read_playbook
from hermes.skills.playbook.reflex import Response, respond, without
from hermes.skills.playbook.schema import Playbook
from hermes.tools.terminal import terminal

pytestmark = pytest.mark.anyio


class Skill:
    """Mends the part of the host that it is called after."""

    digest = "d"

    def __init__(self, folder: Path, name: str, verify: str = "true") -> None:
        self.name = name
        text = f"""
summary: mends {name}
signature:
  probes:
    - name: look
      command: 'cd {folder}; cat {name}'
      expect: {{contains: broken}}
parameters:
  unit: {{from: look, pattern: 'unit=(.*)', kind: unit}}
steps:
  - name: mend
    command: |
      cd {folder}; mkdir -p {{{{kept}}}} && cp {name} {{{{kept}}}}/{name}; echo whole > {name}
    undo: 'cd {folder}; cat {{{{kept}}}}/{name} > {name}; dirname {{{{kept}}}}/x >> kept'
verify:
  - {{name: works, command: 'cd {folder}; {verify}', within: 0.2}}
"""
        self.playbook: Playbook | None
        self.playbook, problems = read_playbook(text)
        assert self.playbook is not None, problems


class Eyes:
    def __init__(self, well: str = "", more: tuple[bool, ...] = (False,)) -> None:
        self.well, self.more = well, list(more)
        self.asked: list[str] = []
        self.mended: list[str] = []

    async def all_clear(self, facts: Facts) -> str:
        self.asked.append(facts.title)
        return self.well

    async def more_to_do(self, facts: Facts, mended: Sequence[str]) -> list[Facts]:
        self.mended = list(mended)
        return [facts] if self.more.pop(0) else []


class Host:
    def __init__(self, folder: Path, **parts: str) -> None:
        self.folder = folder
        self.place = LocalEnvironment(folder, {"PATH": os.defpath}, settings=TerminalSettings())
        for name, text in parts.items():
            (folder / name).write_text(text)

    async def respond(self, skills: list[Skill], eyes: Eyes, title: str = "") -> Response:
        context = ToolContext(
            run="r",
            environment=self.place,
            publish=self._nowhere,
            call=lambda call: self._execute(call, context),
            artifacts=FileArtifacts(self.folder / "artifacts"),
        )
        async with self.place:
            return await respond(
                Facts(title=title), skills, lambda call: self._execute(call, context), judge=eyes
            )

    def text(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    async def _nowhere(self, *events: object) -> tuple[int, ...]:
        return ()

    async def _execute(self, call: ToolCall, context: ToolContext) -> ToolResult:
        said = await terminal(context, call.arguments)
        return ToolResult(call_id=call.id, status="ok", content=said)


@pytest.fixture
async def host(tmp_path: Path) -> AsyncIterator[Host]:
    yield Host(
        tmp_path, web="broken unit=web.service", cache="broken unit=cache.service", job="whole"
    )


async def test_nothing_is_done_to_a_host_that_is_well(host: Host) -> None:
    eyes = Eyes(well="the limit of the check is wrong")
    response = await host.respond([Skill(host.folder, "web")], eyes)
    assert response.all_clear == eyes.well
    assert response.played is None
    assert host.text("web") == "broken unit=web.service"


async def test_the_whole_host_is_looked_at_only_once_a_playbook_is_about_to_act(
    host: Host,
) -> None:
    eyes = Eyes()
    response = await host.respond([Skill(host.folder, "job"), Skill(host.folder, "web")], eyes)
    assert [each.outcome for each in response.tried] == ["declined", "applied"]
    assert len(eyes.asked) == 1


async def test_a_second_fault_is_mended_too_and_the_first_is_not_asked_about_again(
    host: Host,
) -> None:
    eyes = Eyes(more=(True, False))
    skills = [Skill(host.folder, "web"), Skill(host.folder, "cache")]
    response = await host.respond(skills, eyes, "web and cache fail")
    assert [each.skill for each in response.mended] == ["web", "cache"]
    assert (host.text("web"), host.text("cache")) == ("whole", "whole")
    assert eyes.mended == ["web", "cache"]


async def test_with_one_fault_mended_nobody_looks_for_another(host: Host) -> None:
    response = await host.respond(
        [Skill(host.folder, "web"), Skill(host.folder, "cache")], Eyes(more=(False,))
    )
    assert [each.skill for each in response.mended] == ["web"]
    assert host.text("cache") == "broken unit=cache.service"


async def test_one_that_mended_nothing_has_taken_its_changes_back_before_the_next_looks(
    host: Host,
) -> None:
    skills = [Skill(host.folder, "web", verify="false"), Skill(host.folder, "cache")]
    response = await host.respond(skills, Eyes())
    assert [each.outcome for each in response.tried] == ["undone", "applied"]
    assert host.text("web") == "broken unit=web.service"
    assert response.played is not None
    assert response.played.skill == "cache"


async def test_each_run_keeps_its_copies_in_a_folder_of_its_own(host: Host) -> None:
    for _ in range(2):
        await host.respond([Skill(host.folder, "web", verify="false")], Eyes())
    kept = host.text("kept").splitlines()
    assert len(set(kept)) == 2
    assert all(path.startswith("/var/tmp/hermes-undo/") for path in kept)


def test_what_was_mended_is_no_longer_what_the_alert_is_about() -> None:
    facts = Facts(title="web and web-cache fail", labels={"service": "web", "host": "h"})
    rest = without(facts, "web")
    assert rest.title == " and web-cache fail"
    assert rest.labels == {"host": "h"}
    assert without(facts, "") == facts
