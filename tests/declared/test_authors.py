"""Who made a change: only with evidence, else unknown with what would make it known."""

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest

from hermes.declared.authors import AuthorSearch, HostLogs, OwnCommand, read_host_logs
from hermes.declared.change_log import ChangeAuthor
from hermes.declared.state import Item, ItemId, StateChange

NOON = datetime(2026, 11, 17, 12, tzinfo=UTC)
CONF = "/etc/nginx/nginx.conf"


def change(key: str = CONF, kind: str = "file", at: datetime | None = NOON) -> StateChange:
    return StateChange(ItemId(kind, key), Item("1"), Item("2"), at)  # type: ignore[arg-type]


def find(changed: StateChange, own: tuple[OwnCommand, ...] = (), **logs: str) -> ChangeAuthor:
    after, until = NOON - timedelta(minutes=5), NOON + timedelta(minutes=1)
    return AuthorSearch(HostLogs(**logs), own, after, until).find(changed)


SUDO = "alice : TTY=pts/0 ; PWD=/etc/nginx ; USER=root ; COMMAND=/usr/bin/vim"


@pytest.mark.parametrize(
    "line",
    [
        f"Nov 17 11:58:03 web sudo[77]:    {SUDO} {CONF}",
        f"2026-11-17T11:58:03.123456+00:00 web sudo:    {SUDO} {CONF}",
        f"2026-11-17T12:58:03+01:00 web sudo:    {SUDO} {CONF}",
        f"Nov 17 11:58:03 web sudo[77]:    {SUDO} nginx.conf",
    ],
)
def test_sudo_names_the_person_who_named_the_file(line: str) -> None:
    author = find(change(), sudo=line)
    assert author.name == "alice"
    assert "vim" in author.evidence
    assert not find(change("/etc/nginx/nginx.conf.d"), sudo=line).name
    assert not find(change(at=NOON - timedelta(hours=2)), sudo=line).name


def test_a_root_shell_is_a_hint_and_no_author() -> None:
    line = "Nov 17 11:50:00 web sudo: bob : PWD=/home/bob ; USER=root ; COMMAND=/bin/bash"
    author = find(change(), sudo=line)
    assert author.name == ""
    assert "bob had a root shell" in author.unknown_because
    assert "auditctl" in author.unknown_because


def test_without_any_log_it_is_unknown_and_says_what_would_help() -> None:
    author = find(change())
    assert (author.name, author.evidence) == ("", "")
    assert "auditctl" in author.unknown_because


def test_the_audit_log_names_the_login_user_even_after_sudo() -> None:
    seconds = NOON.timestamp() - 1
    audit = (
        f"type=SYSCALL msg=audit({seconds:.3f}:812): arch=c00000b7 syscall=56 success=yes "
        f'ppid=1 pid=2 auid=1000 uid=0 gid=0 comm="vim"\n'
        f'type=PATH msg=audit({seconds:.3f}:812): item=1 name="{CONF}" inode=5\n'
    )
    author = find(change(), audit=audit, users="root 0\nalice 1000\n")
    assert author.name == "alice"
    assert not find(change("/etc/hosts"), audit=audit).name


def test_the_package_log_names_the_upgrade_and_who_asked_for_it() -> None:
    dpkg = "2026-11-17 11:59:50 upgrade nginx:arm64 1.22.1-9 1.22.1-9+deb12u1\n"
    apt = (
        "Start-Date: 2026-11-17  11:59:48\nCommandline: apt-get upgrade\n"
        "Requested-By: alice (1000)\nUpgrade: nginx\nEnd-Date: 2026-11-17  11:59:55\n\n"
    )
    package = find(change("nginx", "package", at=None), dpkg=dpkg, apt=apt)
    assert package.name == "alice"
    assert "upgrade nginx 1.22.1-9+deb12u1" in package.evidence
    assert find(change(), dpkg=dpkg).name == "dpkg"
    assert not find(change("/etc/redis/redis.conf"), dpkg=dpkg).name


def test_what_hermes_did_is_in_its_journal() -> None:
    own = (OwnCommand(NOON - timedelta(seconds=3), "inc-7", f"sed -i s/80/81/ {CONF}"),)
    author = find(change(), own=own)
    assert author.name == "hermes inc-7"
    assert not find(change("/etc/nginx/nginx.con"), own=own).name


def test_git_names_the_author_of_the_content(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    repository.mkdir()
    path = repository / "app.conf"
    path.write_text("port = 80\n")
    other = repository / "other.conf"
    other.write_text("x\n")
    identity = ["-c", "user.name=Carol", "-c", "user.email=c@example.org"]
    for words in (["init", "-q"], ["add", "."], [*identity, "commit", "-qm", "Set port"]):
        subprocess.run(["git", "-C", str(repository), *words], check=True)
    other.write_text("edited by hand\n")

    async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
        done = await anyio.run_process(["sh", "-c", script], input=stdin, check=False)
        return done.returncode, done.stdout

    logs = anyio.run(read_host_logs, run, [change(str(path)), change(str(other))])
    author = AuthorSearch(logs, (), NOON, NOON).find(change(str(path)))
    assert author.name == "Carol"
    assert "Set port" in author.evidence
    assert not AuthorSearch(logs, (), NOON, NOON).find(change(str(other))).name
