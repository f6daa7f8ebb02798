"""Hooks and instructions in the work tree: writing them is writing what runs or counts later."""

import subprocess
from pathlib import Path

import pytest
from policy_setup import HOME, book, call

from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.rules.rule import PolicyVerdict


class Project:
    """A real repository, and a gate that looks into it."""

    def __init__(self, folder: Path, hooks: str = "") -> None:
        self.folder = folder
        subprocess.run(["git", "init", "-q", folder], check=True)
        if hooks:
            subprocess.run(["git", "-C", folder, "config", "core.hooksPath", hooks], check=True)
        self.policy = DocumentPolicy(
            book(set="careful"),
            ActionReader(analyse_command, lookup=resolve_symlinks),
            context_of=lambda _: ActionContext(cwd=str(folder), home=HOME),
        )

    def decide(self, command: str) -> PolicyVerdict:
        return self.policy.decide(call("terminal", command=command))

    def write(self, path: str) -> PolicyVerdict:
        """The write happens, approved or not."""
        action = call("write_file", path=path, content="x")
        found = self.policy.decide(action)
        self.policy.record_start(action)
        return found


@pytest.mark.parametrize(
    "file",
    [
        ".husky/pre-commit",
        ".husky/_/h",
        "web/.husky/pre-push",
        ".githooks/post-checkout",
        ".pre-commit-config.yaml",
        "lefthook.yml",
        ".lefthook.yaml",
    ],
)
def test_a_usual_hook_is_asked_about_when_written_and_when_run(tmp_path: Path, file: str) -> None:
    project = Project(tmp_path)
    assert project.decide("git commit -m x").verdict == "allow"
    assert project.write(file).verdict == "ask"
    if not file.startswith("web/"):
        assert project.decide("git commit -m x").rule == "written-then-run"
        assert project.decide("git switch -c topic").rule == "written-then-run"


@pytest.mark.parametrize(
    ("setting", "file"),
    [("tools/hooks", "tools/hooks/pre-commit"), ("./h", "h/a"), ("build/../h", "h/sub/x")],
)
def test_a_folder_that_the_repository_names_for_hooks_counts(
    tmp_path: Path, setting: str, file: str
) -> None:
    project = Project(tmp_path, hooks=setting)
    assert project.decide(f"echo x > {file}").verdict == "ask"
    found = project.write(file)
    assert (found.verdict, "is a hook" in found.reason) == ("ask", True)
    assert project.decide("git commit -m x").rule == "written-then-run"
    assert project.write("tools/other.sh").verdict == "allow"


def test_hooks_of_a_linked_work_tree_count(tmp_path: Path) -> None:
    main = Project(tmp_path / "main", hooks="h")
    git = ["git", "-C", main.folder, "-c", "user.name=a", "-c", "user.email=a@b.example"]
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "x"], check=True)
    subprocess.run([*git, "worktree", "add", "-q", tmp_path / "other"], check=True)
    assert main.decide(f"echo x > {tmp_path}/other/h/pre-commit").verdict == "ask"


@pytest.mark.parametrize(
    "file", ["AGENTS.md", "sub/CLAUDE.md", ".hermes.md", ".cursorrules", ".cursor/rules/a.mdc"]
)
def test_instructions_for_later_sessions_are_asked_about(tmp_path: Path, file: str) -> None:
    project = Project(tmp_path)
    assert project.write(file).rule == "files-that-run-later"
    assert project.decide(f"echo x >> {file}").rule == "files-that-run-later"
    assert project.write("README.md").verdict == "allow"
