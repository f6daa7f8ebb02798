"""Secret files that a command reaches by detours: other processes, open files, wildcards."""

import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from hermes.core.actions import ConfinementProfile
from hermes.environments.confinement.enforcement import build_filter
from hermes.environments.confinement.messages import VerdictRules
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support
from hermes.policy.actions.confinement_profile import build_profile
from hermes.policy.actions.reader import ActionContext, ActionReader
from hermes.policy.command_analysis import analyse_command
from hermes.policy.examination import action_from_description, parse_description

NOT_HERE = support.kernel_support().reason
MOUNT = "/mnt"
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]
as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can hide files")
SECRET = "fake-value-1"


def judged(command: str, home: Path) -> ConfinementProfile:
    """The profile that the policy gives to a command that runs in the home folder."""
    action = action_from_description(parse_description({"command": command}))
    context = ActionContext(cwd=str(home), home=str(home))
    return build_profile(ActionReader(analyse_command).read(action, context))


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with a key that is hidden, and one that is refused by its name."""
    folder = tmp_path / "home"
    (folder / ".ssh").mkdir(parents=True)
    (folder / ".ssh/id_x").write_text(f"{SECRET}\n")
    (folder / "server.key").write_text(f"{SECRET}\n")
    (folder / "notes").write_text("ordinary\n")
    monkeypatch.setenv("HOME", str(folder))
    return folder


@pytest.fixture
async def here(home: Path) -> AsyncIterator[LocalEnvironment]:
    variables = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8"}
    async with LocalEnvironment(home, variables) as place:
        await place.kernel_support()
        yield place


@pytest.fixture
def other(home: Path) -> Iterator[int]:
    """A process outside that has the key open, in the folder of the key."""
    with (
        (home / ".ssh/id_x").open() as key,
        subprocess.Popen(["sleep", "300"], cwd=home / ".ssh", stdin=key) as process,
    ):
        yield process.pid
        process.kill()


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile
) -> tuple[str, list[str]]:
    async with place.confined(profile) as confined:
        result = await confined.run(command, timeout=120)
        return result.output, [str(each) for each in confined.collect()]


@as_root
@pytest.mark.parametrize(
    "command",
    [
        "find /proc/{pid}/root{home}/ -maxdepth 2 -name 'id_?' -exec cat {{}} +",
        "cat /proc/{pid}/roo?{home}/.s*/id_*",
        "ss -p > /dev/null; cat /proc/{pid}/roo?{home}/.s*/id_*",
        "cat /proc/{pid}/cwd/id_?",
        "cat /proc/{pid}/cw?/id_x",
        "cat /proc/{pid}/task/{pid}/cw?/id_x",
        "cat /proc/{pid}/fd/0",
        "cat /proc/{pid}/f?/0",
        "cat < /proc/{pid}/fd/0",
        "cd /proc/{pid}/cwd && cat id_x",
        "cd /proc/{pid}/root && cat .{home}/.s*/id_*",
        "grep -r . /proc/{pid}/cwd/",
        "cat /proc/{pid}/cwd/../server.ke?",
    ],
)
async def test_no_secret_is_read_through_another_process(
    here: LocalEnvironment, home: Path, other: int, command: str
) -> None:
    command = command.format(pid=other, home=home)
    profile = judged(command, home)
    if profile.own_secrets:
        return  # the policy asks about it
    assert profile.special == ("processes",)
    output, blocked = await run(here, command, profile)
    assert SECRET not in output
    assert [each for each in blocked if each.startswith("read of ")], output


@as_root
async def test_a_profile_that_checks_no_names_still_hides_through_another_process(
    here: LocalEnvironment, home: Path, other: int
) -> None:
    profile = ConfinementProfile(hidden=("~/.ssh/id_*",), special=("processes",))
    command = f"cat /proc/{other}/root{home}/.ssh/id_x /proc/{other}/cwd/id_x"
    output, blocked = await run(here, command, profile)
    assert SECRET not in output
    assert blocked == [f"read of {home}/.ssh/id_x by cat"]
    assert await run(here, "cat .ssh/id_x notes", profile) == ("ordinary\n", [])


@as_root
async def test_other_processes_can_be_inspected_as_before(
    here: LocalEnvironment, home: Path, other: int
) -> None:
    for command in (
        f"ls -l /proc/{other}/fd/ | wc -l",
        f"readlink /proc/{other}/cwd /proc/{other}/exe /proc/{other}/fd/0",
        f"cat /proc/{other}/io | head -2 | wc -l",
        f"cat /proc/{other}/cwd/../notes",
        f"lsof -p {other} 2>/dev/null | grep -c id_x",
        f"pwdx {other}",
    ):
        expected = (await here.run(command, timeout=120)).output
        profile = judged(command, home)
        assert "processes" in profile.special, command
        output, blocked = await run(here, command, profile)
        assert (output, blocked) == (expected, []), command


@as_root
async def test_nothing_is_changed_in_the_root_of_another_process(
    here: LocalEnvironment, home: Path
) -> None:
    """Its file system is another one: a file that is there is missing for the supervisor."""
    script = f"mount -t tmpfs none {MOUNT} && echo kept > {MOUNT}/file && echo && exec sleep 300"
    words = ["unshare", "-m", "sh", "-c", script]
    with subprocess.Popen(words, stdout=subprocess.PIPE) as process:  # noqa: ASYNC220
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"\n"
            place = f"/proc/{process.pid}/root{MOUNT}"
            profile = ConfinementProfile(special=("processes",))
            command = f"truncate -s 0 {place}/file; rm {place}/file; mv {place}/file {place}/moved"
            command += f"; mkdir -p {place}/new/newer; dd if=/dev/null of={place}/file conv=notrunc"
            await run(here, f"{command}; ln -s /x {place}/link", profile)
            left = await here.run(f"cd {place} && ls && cat file", timeout=120)
            assert left.output == "file\nkept\n"
        finally:
            process.kill()


def test_the_supervisor_sees_each_opening_for_writing_where_landlock_does_not() -> None:
    rules, other = VerdictRules(), VerdictRules()
    other.sees_processes = True
    conditions = [
        next(each.conditions for each in build_filter(one) if each.name == "openat")
        for one in (rules, other)
    ]
    assert [len(each) for each in conditions] == [2, 1]


@pytest.mark.parametrize("number", [3, 12, 40, 200])
async def test_a_secret_is_not_opened_again_by_a_descriptor(
    here: LocalEnvironment, home: Path, number: int
) -> None:
    code = (
        "import os\n"
        f"os.dup2(os.open('server.key', os.O_PATH), {number})\n"
        f"os.dup2(os.open('notes', os.O_PATH), {number + 1})\n"
        f"os.symlink('/proc/self/fd/{number}', os.environ['TMPDIR'] + '/link{number}')\n"
        "for name in '/proc/self/fd/%d', '/dev/fd/%d', '/proc/thread-self/fd/%d', '/proc/'"
        " + str(os.getpid()) + '/fd/%d', '/proc/self/task/../fd/%d',"
        f" os.environ['TMPDIR'] + '/link%d':\n"
        f"    try: print(os.read(os.open(name % {number}, 0), 99))\n"
        "    except PermissionError: print('refused')\n"
        f"print(os.read(os.open('/proc/self/fd/{number + 1}', 0), 99))\n"
    )
    profile = judged("cat $(cat list)", home)
    assert profile.refused_reads
    output, _ = await run(here, f'{sys.executable} -S -c "{code}"', profile)
    assert output.splitlines() == ["refused"] * 6 + ["b'ordinary\\n'"]


@pytest.mark.parametrize(
    "command",
    [
        "openssl x509 -in server.key -noout; openssl base64 -in server.ke?",
        "openssl x509 -in server.key -noout; timeout 5 openssl base64 -in server.k[e]y",
        "openssl x509 -in server.key -noout; for f in ?erver*; do openssl base64 -in $f; done",
        "openssl ba?e64 -in server.key",
        "openssl x509 -in server.key; echo base64 -in server.key | openssl",
    ],
)
def test_a_named_key_is_not_granted_beside_words_of_run_time(home: Path, command: str) -> None:
    profile = judged(command, home)
    assert profile.refused_reads
    assert not profile.granted_reads


def test_a_named_key_is_granted_beside_wildcards_that_are_no_paths(home: Path) -> None:
    granted = judged("wget -qO- --ca-certificate=server.key 'https://localhost/?a=[*]'", home)
    assert f"wget:{home}/server.key" in granted.granted_reads
    assert judged("openssl x509 -in server.key -noout", home).granted_reads


async def test_a_named_key_is_not_printed_by_another_call_of_the_program(
    here: LocalEnvironment, home: Path
) -> None:
    command = "openssl x509 -in server.key -noout; openssl base64 -in server.ke?"
    output, blocked = await run(here, command, judged(command, home))
    assert "ZmFrZS12YWx1ZS0x" not in output
    assert blocked == [f"read of {home}/server.key by openssl"]
