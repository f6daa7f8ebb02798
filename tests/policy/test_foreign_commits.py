"""Commits of others: files in them run or are obeyed, so they are asked about as scripts are."""

import subprocess
from pathlib import Path

import pytest
from policy_setup import HOME, book, call, gate

from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.actions.written_files import WRITTEN_FILES_NAME, WrittenFiles
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.rules.rule import PolicyVerdict

GATE = gate()


@pytest.mark.parametrize(
    "command",
    [
        "git switch --detach 3f2a1bc",
        "git switch -d 3f2a1bc~2",
        "git switch -c look 0a1b2c3d4e5f60718293a4b5c6d7e8f901234567",
        "git switch -c look origin/topic",
        "git switch -clook origin/topic",
        "git switch --detach origin/topic",
        "git switch -t upstream/topic",
        "git switch -d refs/remotes/fork/topic",
        "git switch -c look remotes/fork/topic",
        "git switch -d v1.2",
        "git switch -d refs/pull/7/head",
        "git switch -c look '@{u}'",
        "git switch -c look main@{upstream}",
        "git switch -c look v1.0-14-g3f2a1bc",
        "git switch -d ':/fix the build'",
        "git branch look origin/topic",
        "git branch look 3f2a1bc",
        "git branch --track look origin/topic",
        "git worktree add look 3f2a1bc",
        "git worktree add look origin/topic",
        "git worktree add -b new look origin/topic",
        "git worktree add /tmp/look origin/topic",
        "git worktree add --detach look 3f2a1bc",
        "git tag mine origin/topic",
    ],
)
def test_a_commit_by_number_or_of_a_remote_asks_before_its_files_are_here(command: str) -> None:
    found = GATE.decide(call("terminal", command=command))
    assert found.verdict == "ask"
    assert "files of others" in found.reason


@pytest.mark.parametrize(
    "command",
    [
        "git switch main",
        "git switch -",
        "git switch feature/login",
        "git switch -c fix",
        "git switch -c fix main",
        "git switch -c fix HEAD~2",
        "git switch -d HEAD~3",
        "git switch -d @",
        "git branch fix",
        "git branch fix HEAD~1",
        "git branch 20261117",
        "git branch -u origin/main",
        "git branch --set-upstream-to origin/main fix",
        "git branch --contains 3f2a1bc",
        "git branch -r --list 'origin/*'",
        "git worktree add look",
        "git worktree add look main",
        "git worktree add -b fix look main",
        "git tag 20261117",
        "git tag v1.3",
        "git show origin/topic:AGENTS.md",
        "git log origin/main..HEAD",
        "git diff 3f2a1bc",
        "git fetch origin",
    ],
)
def test_own_branches_and_looking_at_others_are_free(command: str) -> None:
    assert GATE.decide(call("terminal", command=command)).verdict == "allow"


class ClonedProject:
    """A clone with a branch of its own, and one that only the remote has."""

    def __init__(self, folder: Path) -> None:
        origin, self.folder = folder / "origin", folder / "project"
        subprocess.run(["git", "init", "-q", "-b", "main", origin], check=True)
        self._git(origin, "commit", "-q", "--allow-empty", "-m", "one")
        self._git(origin, "tag", "released")
        self._git(origin, "branch", "topic")
        subprocess.run(["git", "clone", "-q", origin, self.folder], check=True)
        self._git(self.folder, "branch", "own")
        self._git(self.folder, "branch", "other/own")
        reader = ActionReader(
            analyse_command,
            lookup=resolve_symlinks,
            written_files=WrittenFiles(folder / WRITTEN_FILES_NAME),
        )
        self.policy = DocumentPolicy(
            book(set="careful"),
            reader,
            context_of=lambda _: ActionContext(cwd=str(self.folder), home=HOME),
        )

    def _git(self, folder: Path, *words: str) -> None:
        author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
        subprocess.run(["git", "-C", str(folder), *author, *words], check=True)

    def pack(self) -> None:
        self._git(self.folder, "pack-refs", "--all")

    def decide(self, command: str) -> PolicyVerdict:
        return self.policy.decide(call("terminal", command=command))

    def run(self, command: str) -> None:
        """Somebody approved it."""
        action = call("terminal", command=command)
        self.policy.decide(action)
        self.policy.record_start(action)


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> ClonedProject:
    return ClonedProject(tmp_path_factory.mktemp("clone"))


def test_a_name_that_is_no_branch_here_is_one_of_others(project: ClonedProject) -> None:
    for packed in (False, True):
        if packed:
            project.pack()
        for command in (
            "git switch topic",
            "git switch -c look released",
            "git branch look released",
            "git worktree add look topic",
            f"git -C {project.folder} switch topic",
        ):
            assert project.decide(command).verdict == "ask", command
        for command in (
            "git switch own",
            "git switch other/own",
            "git switch -c look own~1",
            "git switch -c new && git switch main && git switch new",
            "git worktree add look own",
        ):
            assert project.decide(command).verdict == "allow", command


READS = ("terraform plan", "kubectl kustomize .", "docker compose ps", "python3 -m json.tool x")


@pytest.mark.parametrize(
    "command",
    [
        "git checkout origin/topic",
        "git checkout 3f2a1bc -- main.tf",
        "git checkout topic",
        "git pull",
        "git merge origin/topic",
        "git reset --hard 3f2a1bc",
        "git rebase origin/topic",
        "git cherry-pick 3f2a1bc",
        "git restore --source origin/topic .",
        "git restore -s 3f2a1bc main.tf",
        "git restore --source=FETCH_HEAD main.tf",
        "git switch topic",
        "git read-tree -u -m 3f2a1bc",
        "git submodule update --init",
    ],
)
def test_programs_ask_once_before_they_load_files_of_others(tmp_path: Path, command: str) -> None:
    project = ClonedProject(tmp_path)
    assert {project.decide(each).verdict for each in READS} == {"allow"}
    project.run(command)
    assert {project.decide(each).rule for each in READS} == {"written-then-run"}
    assert {project.decide(each).verdict for each in ("git status", "git log -3")} == {"allow"}
    project.run("terraform plan")
    assert project.decide("terraform plan").verdict == "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git checkout own",
        "git checkout -b new",
        "git checkout -- main.tf",
        "git restore main.tf",
        "git restore --staged .",
        "git reset --hard HEAD~1",
        "git merge own",
        "git commit -m 3f2a1bc",
    ],
)
def test_files_of_own_branches_are_not_those_of_others(tmp_path: Path, command: str) -> None:
    project = ClonedProject(tmp_path)
    project.run(command)
    assert {project.decide(each).verdict for each in READS} == {"allow"}
