"""Files that the agent wrote in one session and that a program loads unasked in a later one."""

import os
import sqlite3
from pathlib import Path

import pytest
from msgspec.structs import replace
from policy_setup import HOME, OWN, WORK, book

from hermes.core.actions import Action
from hermes.core.messages import Risk, ToolCall
from hermes.policy.actions import written_files
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.actions.written_files import WRITTEN_FILES_NAME, WrittenFiles
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.rules.rule import PolicyVerdict


class Session:
    """A process of Hermes with a home; the next one with the same home is a later session."""

    count = 0

    def __init__(self, home: Path) -> None:
        Session.count += 1
        self._run = f"run-{Session.count}"
        reader = ActionReader(
            analyse_command, written_files=WrittenFiles(home / WRITTEN_FILES_NAME)
        )
        self.policy = DocumentPolicy(
            book(set="careful"), reader, context_of=lambda _: ActionContext(cwd=WORK, home=HOME)
        )

    def action(self, tool: str, **arguments: object) -> Action:
        risk = Risk.CHANGE
        return Action(
            call=ToolCall("c", tool, arguments),
            risk=risk,
            run=self._run,
            origin="cli",
            environment="local",
            target="",
            isolated=False,
        )

    def write(self, path: str, content: str = "x") -> None:
        action = self.action("write_file", path=path, content=content)
        self.policy.decide(action)
        self.policy.record_start(action)

    def decide(self, command: str) -> PolicyVerdict:
        return self.policy.decide(self.action("terminal", command=command))

    def run(self, command: str) -> None:
        action = self.action("terminal", command=command)
        self.policy.decide(action)
        self.policy.record_start(action)


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("json/tool.py", "python3 -m json.tool x.json"),
        ("json.py", "echo '{}' | python3 -m json.tool"),
        ("argparse.py", "python3 -m json.tool x.json"),
        ("pip.py", "python3 -m pip list"),
        ("pip/__main__.py", "python3 -m pip list"),
        ("sitecustomize.py", "python3 -m json.tool x.json"),
        ("main.tf", "terraform plan"),
        ("/tmp/module/main.tf", "terraform -chdir=/tmp/module plan"),
        ("ansible.cfg", "ansible-inventory --list"),
        (".git", "git status"),
        ("config", "git log"),
        ("docker-compose.override.yml", "docker compose ps"),
        (f"{WORK}/sub/json.py", "cd sub && python3 -m json.tool x"),
        ("/tmp/x/json.py", "cd /tmp/x; python3 -m json.tool x"),
        ("r/config", "git --git-dir=r --work-tree=. status"),
        ("r/HEAD", "git --git-dir r log -3"),
        ("r/refs/tags/leak", "git --git-dir=r show leak | fold -w4"),
        ("r/objects/info/alternates", "git -C sub --git-dir=../r log"),
        ("r/config", "git --git-dir=/srv/app/r ls-remote ssh://127.0.0.1/x"),
        ("tree/.git", "git --work-tree=tree status"),
        ("r/commondir", "git --git-dir=r/.. -C r --no-pager status"),
        ("r/config", "x=$(echo r); git -C $x status"),
        ("r/.git/config", "for d in */; do git -C $d status; done"),
        ("r/.git/config", "ls | xargs -I{} git -C {} status"),
        ("r/config", "env -C r git status"),
        ("r/config", "sudo -D r git status"),
        ("kustomization.yaml", "kubectl kustomize ."),
        ("k2/kustomization.yml", "kubectl kustomize k2 | fold -w4"),
        ("base/kustomization.yaml", "kustomize build overlays/prod"),
        ("supervisord.conf", "supervisorctl status"),
        ("etc/supervisord.conf", "supervisorctl tail web"),
        ("rust-toolchain.toml", "cargo --version"),
        ("rust-toolchain", "rustc --version"),
        (f"{WORK}/rust-toolchain.toml", "cd sub && cargo --version"),
        (".npmrc", "npm outdated"),
        ("/srv/.npmrc", "npm view react"),
        ("package-lock.json", "npm audit"),
        ("pip.conf", "pip list --outdated"),
        (f"{HOME}/.config/pip/pip.conf", "python3 -m pip list"),
        (f"{HOME}/.condarc", "conda search numpy"),
        (".condarc", "conda list"),
        ("Gemfile", "gem outdated"),
        (f"{HOME}/.gemrc", "gem list"),
        ("Pipfile", "pipenv graph"),
        ("/srv/.cargo/config.toml", "cargo tree"),
        (f"{HOME}/.cargo/config.toml", "cargo metadata"),
        (f"{HOME}/.config/go/env", "go version"),
        ("auth.json", "composer outdated"),
        (f"{HOME}/.terraformrc", "terraform plan"),
        (f"{HOME}/.kube/config", "kubectl get pods"),
        (f"{HOME}/.my.cnf", "mysql -e 'select 1'"),
        (f"{HOME}/.config/git/config", "git status"),
    ],
)
def test_what_one_session_wrote_is_not_run_unasked_in_the_next(
    tmp_path: Path, file: str, command: str
) -> None:
    assert Session(tmp_path).decide(command).verdict == "allow"
    Session(tmp_path).write(file)
    found = Session(tmp_path).decide(command)
    assert (found.verdict, found.rule) == ("ask", "written-then-run")
    assert "by the agent in an earlier session" in found.reason


@pytest.mark.parametrize(
    ("file", "command"),
    [
        ("notes.md", "cat notes.md"),
        ("app.py", "cat app.py; head -3 app.py; grep -n x app.py"),
        ("app.py", "git status; git diff app.py"),
        ("app.py", "python3 -m json.tool x.json"),
        ("pkg/json.py", "python3 -m json.tool x.json"),
        ("other/json.py", "cd sub && python3 -m json.tool x.json"),
        ("main.tf", "git log; ls; cat main.tf"),
        ("docker-compose.yml", "docker ps; docker logs web"),
        ("Dockerfile", "docker ps -a"),
        ("/srv/application/main.tf", "terraform plan"),
        ("app.py", "for d in */; do git -C $d status; done"),
        ("kustomization.yaml", "kubectl get pods; git status"),
        ("deployment.yaml", "kubectl kustomize ."),
        ("other/config", "git --git-dir=r status"),
        (".npmrc", "pip list; git status"),
        ("pip.conf", "npm ls; cat pip.conf"),
        (f"{HOME}/.cargo/config.toml", "npm ls; git log -3"),
        ("sub/.npmrc", "npm ls"),
    ],
)
def test_reading_stays_quiet_in_later_sessions(tmp_path: Path, file: str, command: str) -> None:
    Session(tmp_path).write(file)
    assert Session(tmp_path).decide(command).verdict == "allow"


def test_what_was_let_through_once_asks_only_after_another_change(tmp_path: Path) -> None:
    Session(tmp_path).write("main.tf")
    Session(tmp_path).run("terraform plan")  # a person said yes
    assert Session(tmp_path).decide("terraform plan").verdict == "allow"
    Session(tmp_path).write("main.tf")
    assert Session(tmp_path).decide("terraform plan").verdict == "ask"


def test_a_sandbox_and_another_host_have_files_of_their_own(tmp_path: Path) -> None:
    first = Session(tmp_path)
    for change in ({"isolated": True, "environment": "docker"}, {"environment": "ssh"}):
        action = replace(first.action("write_file", path="main.tf", content=""), **change)
        first.policy.decide(action)
        first.policy.record_start(action)
    assert Session(tmp_path).decide("terraform plan").verdict == "allow"
    later = Session(tmp_path)
    there = replace(later.action("terminal", command="terraform plan"), environment="ssh")
    assert later.policy.decide(there).verdict == "ask"


def test_only_files_that_programs_load_are_recorded(tmp_path: Path) -> None:
    session = Session(tmp_path)
    session.write("notes.md")
    session.run("echo x > log.txt")
    session.run("rm main.tf")
    assert not (tmp_path / WRITTEN_FILES_NAME).exists()


def test_a_full_record_keeps_the_folders_of_its_oldest_entries(tmp_path: Path) -> None:
    record = WrittenFiles(tmp_path / WRITTEN_FILES_NAME)
    record.add("", ["/srv/app/main.tf", "/srv/old/json.py"])
    most = written_files.MAX_WRITTEN_ENTRIES
    record.add("", [f"/srv/many/{number}.py" for number in range(most)])
    with sqlite3.connect(tmp_path / WRITTEN_FILES_NAME) as database:
        (count,) = database.execute("SELECT count(*) FROM written").fetchone()
    assert count < most
    assert list(record.below("", "/srv/old")) == ["/srv/old/"]
    assert Session(tmp_path).decide("terraform plan").verdict == "ask"
    assert Session(tmp_path).decide("cat main.tf; ls").verdict == "allow"


def test_a_file_that_is_gone_is_not_asked_about(tmp_path: Path) -> None:
    file = tmp_path / "main.tf"
    record = WrittenFiles(tmp_path / WRITTEN_FILES_NAME, os.path.lexists)
    record.add("", [str(file)])
    assert list(record.below("", str(tmp_path))) == []
    file.touch()
    assert list(record.below("", str(tmp_path))) == [str(file)]


def test_a_damaged_record_asks_and_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / WRITTEN_FILES_NAME).write_text("no database at all" * 100)
    found = Session(tmp_path).decide("git status")
    assert found.verdict == "ask"
    assert str(tmp_path / WRITTEN_FILES_NAME) in found.reason
    assert "move it away" in found.reason
    assert Session(tmp_path).decide("ls").verdict == "allow"


def test_a_home_that_cannot_be_written_does_not_make_it_forget(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    record = WrittenFiles(tmp_path / "file" / WRITTEN_FILES_NAME)
    record.add("", ["/srv/app/main.tf"])
    assert list(record.below("", "/srv/app")) == ["/srv/app/main.tf"]


def test_the_record_is_one_of_our_own_files(tmp_path: Path) -> None:
    reader = ActionReader(analyse_command, own_paths=OWN)
    policy = DocumentPolicy(
        book(set="careful"), reader, context_of=lambda _: ActionContext(cwd=WORK, home=HOME)
    )
    action = Session(tmp_path).action("terminal", command=f"rm {HOME}/.hermes/{WRITTEN_FILES_NAME}")
    assert "self-change" in policy.decide(action).effects


def test_nobody_else_reads_the_record(tmp_path: Path) -> None:
    file = tmp_path / WRITTEN_FILES_NAME
    WrittenFiles(file).add("", ["/srv/app/Makefile"])
    assert file.stat().st_mode & 0o777 == 0o600
    file.chmod(0o644)
    WrittenFiles(file).add("", ["/srv/app/main.tf"])
    assert file.stat().st_mode & 0o777 == 0o600
