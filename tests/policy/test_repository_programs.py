"""Programs that the configuration of a repository names, beside what other commands may do."""

import subprocess
from importlib.resources import files
from pathlib import Path

import pytest
from policy_setup import book

from hermes.core.actions import Action
from hermes.core.messages import Risk, ToolCall
from hermes.policy.actions.reader import ActionContext, ActionReader, resolve_symlinks
from hermes.policy.actions.repository_programs import find_configured_program
from hermes.policy.actions.written_files import WRITTEN_FILES_NAME, WrittenFiles
from hermes.policy.command_analysis import analyse_command
from hermes.policy.commands.tables import path_lists
from hermes.policy.decide import DocumentPolicy

NAMES_A_PROGRAM = {
    "fsmonitor": "[core]\n\tfsmonitor = /tmp/p.sh\n",
    "transport": "[core]\n\tsshCommand = /tmp/p.sh\n",
    "one line": '[diff "x"] textconv = /tmp/p.sh\n',
    "external diff": "[diff]\n\texternal = /tmp/p.sh\n",
    "filter": '[filter "x"]\n\tclean = /tmp/p.sh\n',
    "signature": "[gpg]\n\tprogram = /tmp/p.sh\n",
    "helper": "[credential]\n\thelper = !/tmp/p.sh\n",
    "other end": '[remote "origin"]\n\tuploadpack = /tmp/p.sh\n',
    "address": '[remote "origin"]\n\turl = ext::/tmp/p.sh\n',
    "included": "[include]\n\tpath = more\n",
    "hooks": "[core]\n\thooksPath = /tmp/hooks\n",
    "continued": "[core]\n\tfsmon\\\nitor = /tmp/p.sh\n",
}


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    folder = tmp_path / "repository"
    subprocess.run(["git", "init", "-q", folder], check=True)
    subprocess.run(
        ["git", "-C", folder, "remote", "add", "origin", "git@example.com:a/b.git"], check=True
    )
    (folder / ".git" / "more").write_text("[core]\n\tfsmonitor = /tmp/p.sh\n")
    return folder


def configure(repository: Path, text: str) -> None:
    with (repository / ".git" / "config").open("a") as file:
        file.write(text)


class Gate:
    def __init__(self, cwd: Path) -> None:
        records = WrittenFiles(cwd / WRITTEN_FILES_NAME)
        reader = ActionReader(analyse_command, lookup=resolve_symlinks, written_files=records)
        self._policy = DocumentPolicy(
            book(set="careful"),
            reader,
            context_of=lambda _: ActionContext(cwd=str(cwd), home="/home/me"),
        )

    def decide(self, command: str, *, start: bool = False) -> str:
        action = Action(
            call=ToolCall("c", "terminal", {"command": command}),
            risk=Risk.CHANGE,
            run="run",
            origin="cli",
            environment="local",
            target="",
            isolated=False,
        )
        verdict = self._policy.decide(action).verdict
        if start:
            self._policy.record_start(action)
        return verdict


@pytest.mark.parametrize("name", NAMES_A_PROGRAM)
def test_what_other_pieces_may_do_is_not_lent_to_a_repository(name: str, repository: Path) -> None:
    gate = Gate(repository.parent)
    commands = [
        f"git -C {repository} status; tmux ls",
        f"docker ps; git -C {repository} status",
        f"curl -s http://localhost:8080/; git -C {repository} diff",
        f"cd {repository} && git status && systemctl status x",
        f"git -C {repository} ls-remote origin",
    ]
    assert {gate.decide(each) for each in commands} == {"allow"}
    configure(repository, NAMES_A_PROGRAM[name])
    assert {gate.decide(each) for each in commands} == {"ask"}
    assert gate.decide(f"git -C {repository} status; git -C {repository} log -3; ls") == "allow"
    assert gate.decide(f"git -C {repository} rev-parse HEAD; tmux ls") == "allow"


@pytest.mark.parametrize("name", NAMES_A_PROGRAM)
def test_a_repository_named_by_its_records_is_looked_into(name: str, repository: Path) -> None:
    gate, records = Gate(repository.parent), repository / ".git"
    link = repository.parent / "link"
    link.write_text(f"gitdir: {records}")
    commands = [
        f"git --git-dir={records} status; tmux ls",
        f"git --git-dir {records} ls-remote ssh://127.0.0.1/x",
        f"git -C {repository} --git-dir=.git ls-remote origin",
        f"git --git-dir={link} ls-remote origin",
        f"git --work-tree={repository} --git-dir={records} diff; docker ps",
    ]
    assert {gate.decide(each) for each in commands} == {"allow"}
    configure(repository, NAMES_A_PROGRAM[name])
    assert {gate.decide(each) for each in commands} == {"ask"}
    assert gate.decide(f"git --git-dir={records} log -3") == "allow"


def test_the_common_records_of_a_repository_are_looked_into(
    repository: Path, tmp_path: Path
) -> None:
    configure(repository, NAMES_A_PROGRAM["fsmonitor"])
    for records in (tmp_path / "own", tmp_path / "tree" / ".git"):
        records.mkdir(parents=True)
        (records / "HEAD").write_text("ref: refs/heads/main\n")
        (records / "commondir").write_text(f"{repository}/.git\n")
        assert "core.fsmonitor" in find_configured_program(str(records))
    assert "core.fsmonitor" in find_configured_program(str(tmp_path / "tree"))


@pytest.mark.parametrize("option", ["--git-dir=$D", "--git-dir $(cat d)", "--work-tree=$D"])
def test_records_only_known_at_run_time_are_asked_about(option: str, tmp_path: Path) -> None:
    assert Gate(tmp_path).decide(f"git {option} status") == "ask"


def test_a_repository_that_the_same_command_copies_was_read_by_nobody(tmp_path: Path) -> None:
    bare, copy, work = tmp_path / "bare", tmp_path / "copy", tmp_path / "work"
    work.mkdir()
    gate = Gate(work)
    subprocess.run(["git", "init", "-q", "--bare", bare], check=True)
    assert gate.decide(f"cp -r {bare} {copy}; cd {copy} && git log") == "ask"
    assert gate.decide(f"cp -r {bare} {copy}; git -C {copy} ls-remote origin") == "ask"
    assert gate.decide(f"cp -r {bare} {copy}; git -C {bare} log") == "allow"


def test_usual_configurations_name_no_program(repository: Path) -> None:
    configure(
        repository,
        '[branch "main"]\n\tremote = origin\n\tmerge = refs/heads/main\n[user]\n\tname = A\n'
        '[filter "lfs"]\n\tclean = git-lfs clean -- %f\n\trequired = true\n'
        "[pull]\n\trebase = true\n"
        '[submodule "x"]\n\tactive = true\n\turl = https://example.com/x.git\n[core]\n\tbare=false\n',
    )
    assert find_configured_program(str(repository)) == ""
    assert find_configured_program("/") == ""


def test_submodules_and_linked_work_trees_are_looked_into(repository: Path, tmp_path: Path) -> None:
    inner = repository / ".git" / "modules" / "x"
    inner.mkdir(parents=True)
    (inner / "config").write_text("[core]\n\tfsmonitor = /tmp/p.sh\n")
    linked = tmp_path / "linked"
    linked.mkdir()
    (linked / ".git").write_text(f"gitdir: {repository}/.git")
    for folder in (repository, linked):
        assert "core.fsmonitor" in find_configured_program(str(folder))


@pytest.mark.parametrize(
    "command",
    [
        "for d in */; do git -C $d status; done",
        "find . -name .git -execdir git status \\;",
        "ls -d */ | xargs -I{} git -C {} status",
        "cd $D && git status",
    ],
)
def test_git_in_an_unknown_folder_is_lent_nothing(command: str, tmp_path: Path) -> None:
    assert Gate(tmp_path).decide(command) == "allow"
    assert Gate(tmp_path).decide(f"{command}; docker ps") == "ask"


@pytest.mark.parametrize(
    "command", ["tar -C /tmp/t16 -xzf a.tgz", "unzip -d /tmp/t16 a.zip", "cp -r x /tmp/t16/rr"]
)
def test_what_an_archive_brought_counts_as_written(command: str, tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    assert gate.decide("git -C /tmp/t16/rr status") == "allow"
    gate.decide(command, start=True)
    assert gate.decide("git -C /tmp/t16/rr status") == "ask"
    assert gate.decide("git -C /tmp/t17 status; cat /tmp/t16/rr/file") == "allow"


def test_a_folder_unpacked_below_a_project_does_not_concern_its_git(tmp_path: Path) -> None:
    gate = Gate(tmp_path)
    gate.decide(f"tar -C {tmp_path}/vendor -xf a.tar", start=True)
    assert gate.decide("git status") == "allow"
    gate.decide(f"cp -r x {tmp_path}/.git", start=True)
    assert gate.decide("git status") == "ask"


@pytest.mark.parametrize("inner", ["", "sub"])
def test_git_does_not_take_the_policies_of_a_project_away(repository: Path, inner: str) -> None:
    (repository / "sub").mkdir()
    (repository / ".git" / "refs" / "heads" / "other").write_text("0" * 40)
    (repository / ".git" / "refs" / "heads" / "main").write_text("0" * 40)
    gate = Gate(repository / inner)
    commands = [f"git switch {words}" for words in ("other", "-c new other", "-c new -")]
    assert {gate.decide(each) for each in commands} == {"allow"}
    commands.append(f"git -C {repository} switch main")
    policies = repository / ".hermes" / "policies"
    policies.mkdir(parents=True)
    assert {gate.decide(each) for each in commands} == {"ask"}
    for command in ("git switch -c new", "git commit -m x", "git status", "git worktree add w"):
        assert gate.decide(command) == "allow"


@pytest.mark.parametrize(
    "verb", ["checkout x", "pull", "merge x", "reset --hard x", "stash", "rebase x", "restore ."]
)
def test_leave_for_git_is_not_leave_to_change_the_rules(verb: str, repository: Path) -> None:
    (repository / ".hermes" / "policies").mkdir(parents=True)
    found = analyse_command(
        f"git {verb}", cwd=str(repository), home="/home/me", lookup=resolve_symlinks
    )
    assert "privilege" in found.effects


def _git(repository: Path, *words: str) -> str:
    author = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    command = ["git", "-C", str(repository), *author, *words]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


@pytest.mark.parametrize("packed", [False, True])
def test_a_file_given_by_its_number_is_held_and_a_commit_is_not(
    repository: Path, packed: bool
) -> None:
    for count in range(4):  # several versions, so that a pack has differences
        (repository / ".env").write_text("KEY=value\n" * 200 + f"OTHER={count}\n")
        _git(repository, "add", "-A")
        _git(repository, "commit", "-qm", f"version {count}")
    if packed:
        _git(repository, "gc", "-q")
    gate = Gate(repository)
    for revision in ("HEAD", "HEAD~3"):
        file, commit = _git(repository, "rev-parse", f"{revision}:.env", revision).split()
        assert gate.decide(f"git show {file}") == "ask"
        assert gate.decide(f"git show {file[:12]} | rev") == "ask"
        assert gate.decide(f"git diff {commit} {file}") == "ask"
        assert gate.decide(f"git -C {repository} show {file}") == "ask"
        assert gate.decide(f"git show {file.upper()}") == "ask"
        assert gate.decide(f"git show v1-g{file[:12]}") == "ask"
        assert gate.decide(f"git grep KEY {file}") == "ask"
        assert gate.decide(f"git tag name {file}") == "ask"
        assert gate.decide(f"git notes add -C {file} HEAD") == "ask"
        assert gate.decide(f"git show {commit}") == "allow"
        assert gate.decide(f"git tag name {commit}") == "allow"
        assert gate.decide(f"git show --stat {commit[:10]}") == "allow"


@pytest.mark.parametrize("version", ["2", "4"])
def test_a_search_in_commits_with_secrets_is_held_and_others_are_not(
    repository: Path, version: str
) -> None:
    (repository / "app").mkdir()
    (repository / "app" / "main.py").write_text("x = 1\n")
    _git(repository, "add", "-A")
    _git(repository, "update-index", "--index-version", version)
    _git(repository, "commit", "-qm", "one")
    gate = Gate(repository)
    searches = [
        "git log -S value --oneline",
        "git rev-list --all -Svalue",
        "git grep -q KEY=v HEAD",
        "git grep -c -e KEY HEAD -- .",
        "git grep --cached -l KEY",
    ]
    assert {gate.decide(each) for each in searches} == {"allow"}
    (repository / "app" / ".env").write_text("KEY=value\n")
    _git(repository, "add", "-A")
    assert {gate.decide(each) for each in searches} == {"ask"}
    for free in ("git log -G value", "git grep -I KEY HEAD", "git grep -A 3 KEY app", "git log -p"):
        assert gate.decide(free) == "allow"
    assert gate.decide("xxd .git/objects/44/94381cdd4a30a5543637adf764421e271cba1c") == "ask"
    assert gate.decide("ls .git/objects; du -sh .git/objects") == "allow"


def test_git_hides_every_secret_file_that_the_tables_name_in_projects() -> None:
    file = files("hermes.environments.sandboxing") / "secret_files.txt"
    listed = {line.split()[0] for line in file.read_text().splitlines() if line[0] != "#"}
    for pattern in (*path_lists()["secrets"], *path_lists()["public"]):
        if pattern[0] == "*" and " " not in pattern:
            name = pattern.removeprefix("*/")
            assert f"**/{name}" in listed if "/" in name else name in listed


GIT_OPTIONS_THAT_PRINT_SECRETS = [
    "git log -p --text",
    "git log -p --binary",
    "git diff -a",
    "git grep -a KEY",
    "git log -L1,5:.env",
    "git show :0:id_rsa",
    "git cat-file -p 3f2a9c1b",
    "git cat-file --batch < numbers",
    "git --attr-source=HEAD log -p",
    'x=$(echo LmVudg== | base64 -d); git show "HEAD:$x"',
    'x=$(echo LmVudg== | base64 -d); git cat-file -p "HEAD:$x"',
    "git merge-tree a b c",
    "git tag name HEAD:.env",
    "git notes add -C HEAD:.env",
    'x=$(echo LmVudg== | base64 -d); git tag name "HEAD:$x"',
    "echo '.env diff' > .gitattributes; git log -p",
    "echo '* diff' > sub/.gitattributes",
    "echo '* diff' > copy.git/info/attributes",
    "gh api repos/o/r/contents/.env",
    "env -u GIT_CONFIG_COUNT git log -p",
    "env -i git diff",
    "unset GIT_CONFIG_COUNT; git log -p",
    "export -n GIT_CONFIG_COUNT; git log -p",
    "declare +x GIT_CONFIG_COUNT; git log -p",
    "f() { local GIT_CONFIG_COUNT; git log -p; }; f",
]


@pytest.mark.parametrize("command", GIT_OPTIONS_THAT_PRINT_SECRETS)
def test_git_prints_no_secret_file_because_of_an_option(command: str, repository: Path) -> None:
    assert Gate(repository).decide(command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "git log -p",
        "git show HEAD",
        "git diff",
        "git grep -n KEY",
        "git grep 8080",
        "git tag 20261117",
        "git branch -a",
    ],
)
def test_plain_git_is_free(command: str, repository: Path) -> None:
    assert Gate(repository).decide(command) == "allow"
