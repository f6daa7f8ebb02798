"""Confinement on kernels and in containers that lack a part of it, and programs with habits."""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hermes.core.actions import ConfinementProfile
from hermes.environments.confinement import landlock
from hermes.environments.local import LocalEnvironment
from hermes.environments.open import expected_kernel_support
from hermes.environments.sandboxing import sandbox_resources, support

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]


def in_python(code: str, *words: object) -> list[str]:
    """The lines that a new interpreter prints; it may change itself for good."""
    argv = [sys.executable, "-c", code, *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


OLDER = """
import os, sys
from hermes.environments.confinement import kernel, landlock
abi, folder = int(sys.argv[1]), sys.argv[2]
kernel.prctl(38, 1)
scopes = 3 if abi >= landlock.VERSION_WITH_SCOPES else 0
rights = landlock.RIGHTS_CHANGE
grants = landlock.LandlockRuleset(network=False, scopes=scopes, rights=rights, abi=abi)
grants.writable(f"{folder}/granted")
grants.device("/dev/null")
grants.restrict()
def attempt(name, act):
    try:
        act()
        print(name)
    except OSError as error:
        print(name, "refused")
attempt("write inside", lambda: open(f"{folder}/granted/new", "w"))
attempt("write outside", lambda: open(f"{folder}/kept", "a"))
attempt("make outside", lambda: open(f"{folder}/new", "w"))
attempt("remove outside", lambda: os.unlink(f"{folder}/kept"))
attempt("move out", lambda: os.rename(f"{folder}/granted/new", f"{folder}/new"))
attempt("null", lambda: open("/dev/null", "w"))
attempt("read outside", lambda: open(f"{folder}/kept").read())
"""


@pytest.mark.parametrize("abi", range(1, landlock.landlock_version() + 1))
def test_every_version_of_landlock_holds_what_it_knows(tmp_path: Path, abi: int) -> None:
    (tmp_path / "granted").mkdir()
    (tmp_path / "kept").write_text("as it was")
    assert in_python(OLDER, abi, tmp_path) == [
        "write inside",
        "write outside refused",
        "make outside refused",
        "remove outside refused",
        "move out refused",
        "null",
        "read outside",
    ]


WITHOUT = """
import anyio, os, sys
from pathlib import Path
from hermes.core.actions import ConfinementProfile
from hermes.core.errors import EnvironmentFailed
from hermes.environments.confinement import kernel, seccomp
from hermes.environments.local import LocalEnvironment
names, error, folder = sys.argv[1].split(), int(sys.argv[2]), sys.argv[3]
kernel.prctl(38, 1)
rules = [seccomp.CallRefusal(name, error=error) for name in names]
seccomp.install_filter(seccomp.compile_filter(rules))
async def main():
    async with LocalEnvironment(Path(folder), {"PATH": os.environ["PATH"]}) as place:
        print((await place.kernel_support()).reason)
        print((await place.run("echo still runs")).output, end="")
        try:
            async with place.confined(ConfinementProfile()) as held:
                print((await held.run("echo ran; touch made")).output, end="")
        except EnvironmentFailed as failure:
            print(failure)
anyio.run(main)
"""
LANDLOCK = "landlock_create_ruleset landlock_add_rule landlock_restrict_self"
LACKING = {
    "a kernel that does not know Landlock": (LANDLOCK, 38, "no Landlock"),
    "a kernel on which it is switched off": (LANDLOCK, 95, "no Landlock"),
    "a container that forbids it": (LANDLOCK, 1, "no Landlock"),
    "a container that forbids the last step": ("landlock_restrict_self", 1, "kernel refused"),
    "a container that forbids filters": ("seccomp", 1, "kernel refused"),
}


@pytest.mark.parametrize("kind", LACKING)
def test_where_a_part_is_missing_nothing_runs_as_if_it_were_there(
    tmp_path: Path, kind: str
) -> None:
    names, error, words = LACKING[kind]
    reason, free, refused = in_python(WITHOUT, names, error, tmp_path)
    assert words in reason
    assert free == "still runs"
    assert refused.startswith("not run: the command could not be confined")
    assert list(tmp_path.iterdir()) == []


FORBIDDEN_MOUNTS = """
import anyio, os, sys
from pathlib import Path
from hermes.core.actions import ConfinementProfile
from hermes.environments.confinement import kernel, seccomp
from hermes.environments.local import LocalEnvironment, expected_kernel_support
names, folder = sys.argv[1].split(), sys.argv[2]
kernel.prctl(38, 1)
rules = [seccomp.CallRefusal(name) for name in names]
seccomp.install_filter(seccomp.compile_filter(rules))
print(expected_kernel_support())
async def main():
    async with LocalEnvironment(Path(folder), {"PATH": os.environ["PATH"]}) as place:
        print(await place.kernel_support())
        async with place.confined(ConfinementProfile(hidden=("/etc/shadow",))) as held:
            print((await held.run("echo ran; touch made")).output, end="")
anyio.run(main)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root hides files")
@pytest.mark.parametrize("names", ["unshare", "mount", "fsopen"])
def test_where_nothing_can_be_hidden_commands_run_and_it_is_said(
    tmp_path: Path, names: str
) -> None:
    before, support, ran, *_ = in_python(FORBIDDEN_MOUNTS, names, tmp_path)
    assert "visible_secrets='mounts of its own are forbidden" in before
    assert support == before
    assert "reason=''" in support
    assert ran == "ran"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.getuid() != 0, reason="another user is needed")
def test_other_users_are_told_that_nothing_is_hidden(tmp_path: Path) -> None:
    code = (
        "import os; os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
        "from hermes.environments.sandboxing.support import try_kernel_support\n"
        "print(try_kernel_support())"
    )
    preload = "import hermes.environments.sandboxing.support, hermes.environments.confinement."
    (line,) = in_python(f"{preload}fork_server\n{code}")
    assert "root=False" in line
    assert "visible_secrets='only root can hide them'" in line or "ptrace_scope" in line
    (line,) = in_python(f"{preload}fork_server\n{code.partition(chr(10))[2]}")
    assert "visible_secrets=''" in line


def test_environments_say_themselves_what_they_can_enforce() -> None:
    for kind in ("ssh", "docker"):
        assert "once Hermes has connected" in expected_kernel_support(kind).reason
    for kind in ("kubernetes", "no-such-environment"):
        reason = f"commands in {kind} are not confined by the kernel"
        assert expected_kernel_support(kind).reason == reason


UNDER_ANOTHER_LISTENER = """
import anyio, os, sys
from pathlib import Path
from hermes.environments.confinement import kernel, seccomp
from hermes.environments.sandbox import SandboxEnvironment
seccomp.install_filter_with_listener(seccomp.compile_filter([seccomp.CallRefusal("acct")]))
async def main():
    variables = {"PATH": "/usr/bin:/bin"}
    async with SandboxEnvironment(Path(sys.argv[1]), variables, isolation=("namespaces",)) as place:
        code = "import socket; socket.socketpair(); print('pair'); socket.socket(socket.AF_UNIX)"
        print((await place.run(f'{sys.argv[2]} -c "{code}"')).output)
anyio.run(main)
"""


@pytest.mark.skipif(os.getuid() != 0, reason="a filter with a listener needs root here")
def test_where_connections_cannot_be_supervised_a_sandbox_has_no_unix_sockets(
    tmp_path: Path,
) -> None:
    if sandbox_resources.find_missing_support("namespaces"):
        pytest.skip(sandbox_resources.find_missing_support("namespaces"))
    python = shutil.which("python3", path="/usr/bin") or sys.executable
    (tmp_path / "work").mkdir()
    lines = in_python(UNDER_ANOTHER_LISTENER, tmp_path / "work", python)
    assert "pair" in lines
    assert "PermissionError: [Errno 1] Operation not permitted" in lines


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    (tmp_path / "work").mkdir()
    (tmp_path / "kept").write_text("as it was")
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "work"), "TERM": "xterm"}
    async with LocalEnvironment(tmp_path / "work", variables) as place:
        yield place


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile | None = None
) -> tuple[int, str, list[str]]:
    async with place.confined(profile or ConfinementProfile()) as confined:
        result = await confined.run(command, timeout=60)
        return result.exit_code, result.output, [str(each) for each in confined.collect()]


async def test_an_import_leaves_no_compiled_file(here: LocalEnvironment, tmp_path: Path) -> None:
    (tmp_path / "work" / "module.py").write_text("print('imported')")
    found = await run(here, f"PYTHONSAFEPATH= {sys.executable} -c 'import module'")
    assert found == (0, "imported\n", [])
    assert [each.name for each in (tmp_path / "work").iterdir()] == ["module.py"]


PAGERS = {
    "less": ("less notes", b"/two\rq"),
    "sqlite3": ("sqlite3", b"select 1;\r.exit\r"),
    "bash": ("bash -i", b"echo one\rexit\r"),
    "python3": ("python3", b"1\rexit()\r"),
}


@pytest.mark.parametrize("program", PAGERS)
async def test_a_program_that_keeps_a_history_keeps_none(
    here: LocalEnvironment, tmp_path: Path, program: str
) -> None:
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    (tmp_path / "work" / "notes").write_text("one\ntwo\nthree\n" * 100)
    command, keys = PAGERS[program]
    async with here.confined(ConfinementProfile()) as confined:
        process = await confined.start(command, pty=True)
        with anyio.fail_after(60):
            await process.output()
            await process.write(keys)
            while await process.output():
                pass
            assert await process.wait() == 0
    assert [each.name for each in (tmp_path / "work").iterdir()] == ["notes"]


async def test_shared_memory_is_refused_unless_it_was_judged(here: LocalEnvironment) -> None:
    command = f"{sys.executable} -c 'import multiprocessing; multiprocessing.Lock(); print(1)'"
    code, _, blocked = await run(here, command)
    assert code == 1
    assert all(each.startswith("write to /dev/shm/") for each in blocked)
    assert blocked
    assert await run(here, command, ConfinementProfile(writable=("/dev/shm",))) == (0, "1\n", [])


NAME_SERVICE = """
import anyio, os, socket, threading
from pathlib import Path
from hermes.core.actions import ConfinementProfile
from hermes.environments.local import LocalEnvironment
service = socket.socket(socket.AF_UNIX)
service.bind("/run/nscd/socket")
service.listen(16)
asked = []
def serve():
    while True:
        service.accept()[0].close()
        asked.append(1)
async def main():
    threading.Thread(target=serve, daemon=True).start()
    async with LocalEnvironment(Path("/run"), {"PATH": os.environ["PATH"]}) as place:
        async with place.confined(ConfinementProfile()) as held:
            print((await held.run("getent passwd root | cut -d: -f1")).output.strip())
            print([str(each) for each in held.collect()])
    print("asked" if asked else "not asked")
anyio.run(main)
"""


@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed")
def test_a_name_service_may_be_asked() -> None:
    box = ["bwrap", "--dev-bind", "/", "/", "--tmpfs", "/run", "--dir", "/run/nscd"]
    argv = [*box, "--die-with-parent", sys.executable, "-c", NAME_SERVICE]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["root", "[]", "asked"], done.stderr


async def test_what_a_command_leaves_behind_stays_confined(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    later = f"sleep 0.2; echo changed > {tmp_path}/kept; echo tried > $TMPDIR/tried"
    code, _, _ = await run(here, f'(setsid bash -c "{later}" >/dev/null 2>&1 &)')
    assert code == 0
    with anyio.fail_after(60):
        while not (here.temporary / "tried").exists():  # noqa: ASYNC110 - it has left us
            await anyio.sleep(0.02)
    assert (tmp_path / "kept").read_text() == "as it was"


async def test_protected_files_below_a_granted_folder_do_not_change(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    policies = tmp_path / "tree" / "home" / "policies"
    policies.mkdir(parents=True)
    (policies / "a.yaml").write_text("as it was")
    profile = ConfinementProfile(
        writable=(str(tmp_path / "tree"),), protected=(str(policies), f"{tmp_path}/elsewhere")
    )
    for command in (
        f"echo x > {policies}/a.yaml",
        f"echo x > {policies}/b.yaml",
        f"mv {policies} {tmp_path}/tree/gone",
        f"mv {tmp_path}/tree/home {tmp_path}/tree/gone",
        f"rm {policies}/a.yaml",
        f"mkdir {tmp_path}/tree/n; mv -T --exchange {tmp_path}/tree/n {policies.parent}",
    ):
        code, output, _ = await run(here, command, profile)
        assert code != 0, (command, output)
    assert [each.read_text() for each in policies.iterdir()] == ["as it was"]
    code, output, _ = await run(
        here, f"mkdir {tmp_path}/tree/x && cp /etc/hosts {tmp_path}/tree/x", profile
    )
    assert code == 0, output


async def test_no_setuid_file_is_made_unless_a_person_agreed(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    tree, source = tmp_path / "tree", tmp_path / "source"
    tree.mkdir()
    source.write_text("x")
    source.chmod(0o4755)
    profile = ConfinementProfile(writable=(str(tree),))
    for command in (f"cp -p {source} {tree}/a", f"touch {tree}/b && chmod u+s {tree}/b"):
        code, output, _ = await run(here, command, profile)
        assert code != 0, (command, output)
    assert [each for each in tree.iterdir() if each.stat().st_mode & 0o6000] == []
    agreed = ConfinementProfile(writable=(str(tree),), setuid_files=True)
    code, output, _ = await run(here, f"cp -p {source} {tree}/c", agreed)
    assert code == 0, output
    code, output, _ = await run(here, f"mkdir {tree}/shared && chmod g+s {tree}/shared", profile)
    assert code == 0, output  # on a folder the bit gives no rights


async def test_a_command_changes_no_attribute_of_a_device_that_every_command_may_write(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    null = os.open("/dev/null", os.O_RDONLY)
    before = os.fstat(null)
    harmless = f"{stat.S_IMODE(before.st_mode):o}"  # so that a failure harms no one
    (tmp_path / "work" / "link").symlink_to("/dev/null")
    tricks = f"chmod {harmless} link; touch link; chown 0:0 link; echo x > link; echo $?"
    async with here.confined(ConfinementProfile()) as confined:
        result = await confined.run(tricks, timeout=120)
        blocked = [str(each) for each in confined.collect()]
    assert result.output.endswith("0\n")
    assert os.fstat(null).st_ctime_ns == before.st_ctime_ns
    assert "change mode of /dev/null by chmod" in blocked
    os.close(null)


async def test_a_command_changes_no_attribute_of_a_terminal_of_others(
    here: LocalEnvironment,
) -> None:
    master, terminal = os.openpty()
    try:
        name, before = os.ttyname(terminal), os.fstat(terminal)
        harmless = f"{stat.S_IMODE(before.st_mode):o}"
        async with here.confined(ConfinementProfile()) as confined:
            result = await confined.run(f"chmod {harmless} {name}", timeout=120)
        assert result.exit_code == 1
        assert os.fstat(terminal).st_ctime_ns == before.st_ctime_ns
    finally:
        os.close(master)
        os.close(terminal)
