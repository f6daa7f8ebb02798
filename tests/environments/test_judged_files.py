"""Files that appear or change between the verdict on a command and the moment it opens them."""

import os
import shutil
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile
from hermes.core.errors import ToolError
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support
from hermes.policy.actions.confinement_profile import approved_profile, build_profile
from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.examination import action_from_description, parse_description

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]
RUN = "the setting was used"
CHANGED = "it changed after the command was judged"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    return tmp_path / "work"


@pytest.fixture
async def here(work: Path) -> AsyncIterator[LocalEnvironment]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(work.parent), "LANG": "C.UTF-8"}
    async with LocalEnvironment(work, variables) as place:
        yield place


def judged(command: str, folder: Path) -> ConfinementProfile:
    action = replace(
        action_from_description(parse_description({"command": command})), environment="local"
    )
    reader = ActionReader(analyse_command, lookup=resolve_symlinks)
    return build_profile(reader.read(action, ActionContext(cwd=str(folder), home="/home/nobody")))


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile
) -> tuple[str, list[str]]:
    async with place.confined(profile) as confined:
        result = await confined.run(command, timeout=120)
        return result.output, [f"{each.what} ({each.reason})" for each in confined.collect()]


def make_repository(folder: Path, monitor: str = "") -> None:
    subprocess.run(["git", "init", "-q", folder], check=True)
    if monitor:
        set_monitor(folder, monitor)


def set_monitor(folder: Path, text: str = RUN) -> None:
    """A program that git runs when it looks for changed files."""
    monitor = f"echo {text} >&2; false #"
    subprocess.run(["git", "-C", folder, "config", "core.fsmonitor", monitor], check=True)
    (folder / "a").write_text("")
    subprocess.run(["git", "-C", folder, "add", "a"], check=True, capture_output=True)


def make_committed_repository(folder: Path) -> None:
    make_repository(folder)
    for words in ("config user.name a", "config user.email a@b.example"):
        subprocess.run(["git", "-C", folder, *words.split()], check=True)
    subprocess.run(["git", "-C", folder, "commit", "-qm", "x", "--allow-empty"], check=True)


async def test_a_configuration_that_was_there_is_used(here: LocalEnvironment, work: Path) -> None:
    make_repository(work / "r", monitor=RUN)
    printed, refused = await run(here, "git -C r status", judged("git -C r status", work))
    assert RUN in printed
    assert refused == []


async def test_a_changed_configuration_is_refused(here: LocalEnvironment, work: Path) -> None:
    make_repository(work / "r")
    profile = judged("git -C r status", work)
    set_monitor(work / "r")
    printed, refused = await run(here, "git -C r status", profile)
    assert RUN not in printed
    assert refused == [f"read of {work}/r/.git/config ({CHANGED})"]
    printed, _ = await run(here, "git -C r status", approved_profile(profile))
    assert RUN in printed


@pytest.mark.parametrize(
    "command", ["git -C r status", "cd r; git status", "mkdir -p r; git -C r status"]
)
@pytest.mark.parametrize("way", ["made", "moved", "linked", "link replaced", "folder moved"])
async def test_a_repository_that_was_not_there_is_refused(
    here: LocalEnvironment, work: Path, command: str, way: str
) -> None:
    make_repository(work / "ready", monitor=RUN)
    if way == "link replaced":
        (work / "plain").mkdir()
        (work / "r").symlink_to("plain")
    elif way != "folder moved":
        (work / "r").mkdir()
    profile = judged(command, work)
    if way == "made":
        make_repository(work / "r", monitor=RUN)
    elif way == "moved":
        (work / "ready/.git").rename(work / "r/.git")
    elif way == "linked":
        (work / "r/.git").symlink_to("../ready/.git")
    elif way == "link replaced":
        (work / "r").unlink()
        (work / "r").symlink_to("ready")
    else:
        (work / "ready").rename(work / "r")
    if way == "link replaced" and profile.writable:
        with pytest.raises(ToolError, match="which the verdict does not cover"):
            await run(here, command, profile)
        return
    printed, refused = await run(here, command, profile)
    assert RUN not in printed
    assert any(CHANGED in each for each in refused)


@pytest.mark.parametrize(
    ("command", "file"),
    [("npm ls", "package.json"), ("cargo metadata", ".cargo/config.toml"), ("mvn -v", "pom.xml")],
)
async def test_files_of_other_programs_are_refused_if_they_are_new(
    here: LocalEnvironment, work: Path, command: str, file: str
) -> None:
    (work / file).parent.mkdir(exist_ok=True)
    (work / file).write_text(RUN)
    profile = judged(command, work)
    assert (await run(here, f"cat {file}", profile)) == (RUN, [])
    (work / file).write_text(RUN)
    printed, refused = await run(here, f"cat {file}", profile)
    assert RUN not in printed
    assert refused == [f"read of {work}/{file} ({CHANGED})"]


async def test_a_module_that_is_new_is_not_imported(here: LocalEnvironment, work: Path) -> None:
    profile = judged("python3 -c 'print(1)'", work)
    (work / "sitecustomize.py").write_text(f"print({RUN!r})")
    printed, _ = await run(here, "PYTHONPATH=. python3 -c 'print(1)'", profile)
    assert RUN not in printed


async def test_repositories_of_a_loop_and_submodules_are_used(
    here: LocalEnvironment, work: Path
) -> None:
    for name in ("a", "b"):
        make_repository(work / name, monitor=RUN)
    for command in ("for d in */; do git -C $d status; done", "ls | xargs -I{} git -C {} status"):
        printed, refused = await run(here, command, judged(command, work))
        assert printed.count("On branch") == 2
        assert refused == []


async def test_a_command_uses_what_it_makes_itself(here: LocalEnvironment, work: Path) -> None:
    make_committed_repository(work)
    for command in (
        "echo x > b; git add b; git commit -qm b; git log --oneline",
        "mkdir -p sub; git -C sub status --short",
        "git worktree add -q w; git -C w log --oneline",
        "git switch -q -c topic; git status --short; git branch",
    ):
        profile = replace(judged(command, work), unrestricted="")
        _, refused = await run(here, command, profile)
        assert not [each for each in refused if CHANGED in each], command


async def test_a_hook_of_machine_code_that_is_new_is_not_started(
    here: LocalEnvironment, work: Path
) -> None:
    make_committed_repository(work / "r")
    command = "git -C r commit -q --allow-empty -m y"
    hook = work / "r/.git/hooks/pre-commit"
    hook.unlink(missing_ok=True)
    before = judged(command, work)
    shutil.copy("/usr/bin/env", hook)  # it prints what git gave it
    printed, refused = await run(here, command, before)
    assert "GIT_INDEX_FILE" not in printed
    assert refused == [f"start of {hook} ({CHANGED})"]
    printed, refused = await run(here, command, replace(before, judged_at=time.time_ns()))
    assert "GIT_INDEX_FILE" in printed
    assert refused == []
