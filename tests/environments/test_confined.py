"""Commands held to their verdict by the kernel, whatever the gate believed about their text."""

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hermes.core.actions import ConfinementProfile
from hermes.core.errors import EnvironmentFailed, ToolError
from hermes.core.protocols import ReportsRefusals
from hermes.environments.confinement import kernel, seccomp
from hermes.environments.confinement.enforcement import build_filter
from hermes.environments.confinement.messages import VerdictRules
from hermes.environments.confinement.verdict_paths import find_repository_folders, resolve_rules
from hermes.environments.local import LocalEnvironment
from hermes.environments.processes.process_tree import process_birth
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    (tmp_path / "work").mkdir()
    (tmp_path / "kept").write_text("as it was")
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "work"), "LANG": "C.UTF-8"}
    place = LocalEnvironment(tmp_path / "work", variables, processes=tmp_path / "processes")
    async with place:
        assert (await place.kernel_support()).reason == ""
        yield place


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile | None = None
) -> tuple[int, str, list[str]]:
    async with place.confined(profile or ConfinementProfile()) as confined:
        result = await confined.run(command, timeout=120)
        return result.exit_code, result.output, [str(each) for each in confined.collect()]


TRICKS = {
    "a variable": 'X=$KEPT; echo changed > "$X"',
    "a redirection": "echo changed >| $KEPT",
    "an append": "echo changed >> $KEPT",
    "a truncation": "truncate -s 0 $KEPT",
    "an arithmetic subscript": "a='x[$(echo changed > $KEPT)]'; echo $((a))",
    "git fsmonitor": "git init -q . ; git -c core.fsmonitor='echo changed > $KEPT;:' status",
    "a git alias": "git -c alias.x='!echo changed > $KEPT' x",
    "a local module": 'printf \'open("%s","w")\' $KEPT > $TMPDIR/json.py; cd $TMPDIR; '
    "echo '{}' | PYTHONSAFEPATH= python3 -m json",
    "a removal": "rm -f $KEPT",
    "a rename over it": "echo changed > $TMPDIR/x; mv -f $TMPDIR/x $KEPT",
    "a symlink": "ln -s $KEPT $TMPDIR/l; echo changed > $TMPDIR/l",
    "a hard link": "ln $KEPT $TMPDIR/h; echo changed > $TMPDIR/h",
    "a mode": "chmod 777 $KEPT",
    "a time": "touch -d 2001-01-01 $KEPT",
    "python": 'python3 -c \'import os; open(os.environ["KEPT"], "w").write("changed")\'',
    "python's os.open": "python3 -c 'import os; os.open(os.environ[\"KEPT\"], 2|0o4000)'",
    "a detached child": "setsid -w nohup sh -c 'echo changed > $KEPT'",
    "a way through /proc": "echo changed > /proc/self/root$KEPT; echo a > /proc/$PPID/root$KEPT",
    "a bind mount": "mount --bind $TMPDIR ${KEPT%/*}",
    "a new namespace": "unshare -rm sh -c 'mount -t tmpfs x /mnt; echo changed > $KEPT'",
    "a file attribute": "chattr +d $KEPT; touch $KEPT",
    "dd": "dd if=/dev/zero of=$KEPT bs=1 count=1",
    "install": "install -m 777 /dev/null $KEPT",
    "an extended attribute": "python3 -c 'import os; "
    'os.setxattr(os.environ["KEPT"], "user.x", b"1")\'',
}


@pytest.mark.parametrize("trick", TRICKS)
async def test_a_command_judged_read_only_changes_nothing(
    here: LocalEnvironment, tmp_path: Path, trick: str
) -> None:
    kept = tmp_path / "kept"
    before = kept.stat()
    await here.run(f"export KEPT={kept}")
    _, output, blocked = await run(here, TRICKS[trick])
    after = kept.stat()
    assert kept.read_text() == "as it was", output
    facts = ("st_mode", "st_mtime_ns", "st_ino", "st_nlink", "st_size")
    assert [getattr(after, f) for f in facts] == [getattr(before, f) for f in facts], output
    assert list((tmp_path / "work").iterdir()) == []
    assert os.listxattr(kept) == []
    assert blocked, output


async def test_a_refusal_names_the_file_and_the_program(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    code, output, blocked = await run(here, f"echo x > {tmp_path}/kept")
    assert code == 1
    assert "Permission denied" in output
    assert blocked == [f"write to {tmp_path}/kept by bash"]


READS = [
    "echo hi; cat /etc/hostname; ls -la / | head -3",
    "ps aux | wc -l > /dev/null; df / | tail -1 | cut -d' ' -f1",
    "diff <(echo a) <(echo b)",
    "cat <<< text; cat <<'E'\nhere\nE",
    "sort -S 100k /etc/services | md5sum; find /etc -maxdepth 1 -name 'host*' | sort",
    "git -C / status 2>&1 | head -1; python3 -c 'import json; print(json.dumps(1))'",
    "awk 'BEGIN { print 1+1 }'; sed -n 1p /etc/passwd; getent passwd root",
    "x=$(mktemp); echo in > $x; cat $x; rm $x",
    "(sleep 0.05; echo late) & wait; echo $?",
    "timeout 5 sleep 0.01; kill -0 $$ && echo alive",
    "ss -ltn | head -1; ip -o link | head -1 | cut -c1-5; id -u; stty -a < /dev/null 2>&1",
    "mkdir -p /usr/share 2>&1; touch /nowhere/x 2>&1; rm -f /nowhere/y; echo $?",
    "echo out > /dev/stdout; echo err > /dev/stderr; echo x | tee /dev/null",
    "bash -c 'echo $BASH_VERSION'; sh -c 'exit 3'; echo $?",
]


@pytest.mark.parametrize("command", READS)
async def test_ordinary_reading_works_as_without(here: LocalEnvironment, command: str) -> None:
    free = await here.run(command)
    code, output, _ = await run(here, command)
    assert (code, output) == (free.exit_code, free.output)


async def test_a_folder_that_becomes_a_link_after_the_check_leads_nothing_astray(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    work, protected = tmp_path / "work", tmp_path / "protected"
    for folder in (work / "sub", protected):
        folder.mkdir()
    (work / "link").symlink_to(protected)
    ended = threading.Event()

    def swap() -> None:
        both = os.fsencode(work / "sub"), os.fsencode(work / "link")
        while not ended.is_set():
            kernel.system_call("renameat2", -100, both[0], -100, both[1], 2)  # they change places

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        async with here.confined(ConfinementProfile(writable=(str(work / "sub"),))) as confined:
            for _ in range(300):
                with contextlib.suppress(ToolError):
                    await confined.write(str(work / "sub/file"), b"x")
    finally:
        ended.set()
        thread.join()
    assert list(protected.iterdir()) == []


async def test_a_detached_process_of_a_confined_command_ends_with_the_session(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "work")}
    place = LocalEnvironment(tmp_path / "work", variables, processes=tmp_path / "processes")
    async with place:
        _, output, _ = await run(place, "setsid sleep 613 >/dev/null 2>&1 & echo $!")
        detached = int(output)
        async with place.confined(ConfinementProfile()) as confined:
            lasting = (await confined.start("sleep 614")).pid
        await anyio.sleep(0.1)
        assert process_birth(detached)
    assert process_birth(detached) == ""
    assert lasting
    os.killpg(lasting, signal.SIGKILL)


async def test_what_was_judged_can_be_written_and_nothing_beside_it(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    target = tmp_path / "work" / "new"
    profile = ConfinementProfile(writable=(str(target),))
    code, output, _ = await run(
        here, f"echo 1 > {target}; echo 2 >> {target}; cat {target}", profile
    )
    assert (code, output) == (0, "1\n2\n")
    code, _, blocked = await run(here, f"echo 3 > {target}.other", profile)
    assert (code, blocked) == (1, [f"write to {target}.other by bash"])
    code, output, _ = await run(
        here, f"chmod 600 {target} && touch {target} && rm {target}", profile
    )
    assert (code, output) == (0, "")
    made = f"mkdir -p {target}/a/b && echo x > {target}/a/b/c && rm -r {target}"
    assert (await run(here, made, profile))[:2] == (0, "")
    assert list((tmp_path / "work").iterdir()) == []


async def test_a_judged_folder_is_writable_with_all_below_it(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    tree = tmp_path / "work" / "tree"
    tree.mkdir()
    profile = ConfinementProfile(writable=(str(tree),))
    busy = f"cd {tree}; mkdir a; echo 1 > a/b; ln -s b a/c; mv a d; cp -a d e; chmod 700 e; ls"
    assert (await run(here, busy, profile))[:2] == (0, "d\ne\n")
    assert (await run(here, f"cd /; rm -r {tree}", profile))[:2] == (0, "")
    assert not tree.exists()


async def test_sed_may_replace_the_file_it_edits(here: LocalEnvironment, tmp_path: Path) -> None:
    conf, other = tmp_path / "work" / "conf", tmp_path / "work" / "other"
    conf.write_text("old\n")
    other.write_text("old\n")
    profile = ConfinementProfile(writable=(str(conf),), beside=(str(conf.parent),))
    assert (await run(here, f"sed -i s/old/new/ {conf}", profile))[:2] == (0, "")
    assert (await run(here, f"sed -i s/old/new/ {other}", profile))[0] != 0
    assert (conf.read_text(), other.read_text()) == ("new\n", "old\n")


async def test_a_link_that_leads_elsewhere_than_judged_refuses_the_command(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    link = tmp_path / "work" / "link"
    link.symlink_to(tmp_path / "kept")
    with pytest.raises(ToolError, match="leads to"):
        await run(here, f"echo changed > {link}", ConfinementProfile(writable=(str(link),)))
    async with here.confined(ConfinementProfile(writable=(str(link),))) as confined:
        with pytest.raises(ToolError, match="leads to"):
            await confined.write(str(link), b"changed")
    assert (tmp_path / "kept").read_text() == "as it was"


async def test_a_hard_link_is_only_written_where_a_person_agreed(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    link = tmp_path / "work" / "link"
    link.hardlink_to(tmp_path / "kept")
    command = f"echo changed > {link}"
    code, _, blocked = await run(here, command, ConfinementProfile(writable=(str(link),)))
    assert code == 1
    assert "hard link" in blocked[0]
    assert (tmp_path / "kept").read_text() == "as it was"
    agreed = ConfinementProfile(writable=(str(link),), hard_links=True)
    assert (await run(here, command, agreed))[0] == 0


async def test_a_file_tool_writes_only_what_was_judged(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    async with here.confined(ConfinementProfile(writable=(str(tmp_path / "work"),))) as confined:
        await confined.write("made", b"x")
        with pytest.raises(ToolError, match="outside"):
            await confined.write(str(tmp_path / "kept"), b"changed")
        assert await confined.read("made") == b"x"


async def test_signals_stay_inside(here: LocalEnvironment) -> None:
    victim = subprocess.Popen(["sleep", "60"])  # noqa: ASYNC220
    try:
        command = f"kill {victim.pid}; sleep 60 & sleep 0.2; kill $!; wait $!; echo $?"
        _, output, blocked = await run(here, command)
        assert output.splitlines()[-1] == "143"
        assert victim.poll() is None
        assert (await run(here, f"kill -0 {victim.pid} && echo there"))[1:] == ("there\n", [])
        assert blocked == [f"signal to process {victim.pid} by bash"]
        await run(here, f"kill {victim.pid}", ConfinementProfile(may_signal=True))
        assert victim.wait(120) == -signal.SIGTERM
    finally:
        victim.kill()
        victim.wait()


CONNECT = """
import socket, sys
kind, where = sys.argv[1:3]
s = socket.socket(socket.AF_UNIX if kind == "unix" else socket.AF_INET)
s.settimeout(5) if sys.argv[3:] else None
s.connect(where if kind == "unix" else ("127.0.0.1", int(where)))
print(s.recv(5).decode())
"""


def connecting(kind: str, where: object, *more: str) -> str:
    return f"{sys.executable} -c '{CONNECT}' {kind} {where} {' '.join(more)}"


async def serve(listener: socket.socket) -> None:
    listener.setblocking(False)
    while True:
        await anyio.wait_readable(listener)
        link, _ = listener.accept()
        link.send(b"hello")
        link.close()


async def test_only_the_named_port_can_be_reached(here: LocalEnvironment) -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("", 0)) as two:
        named, other = one.getsockname()[1], two.getsockname()[1]
        async with anyio.create_task_group() as group:
            group.start_soon(serve, one)
            group.start_soon(serve, two)
            profile = ConfinementProfile(network="ports", ports=(named,))
            for more in ((), ("timeout",)):
                answer = await run(here, connecting("tcp", named, *more), profile)
                assert answer == (0, "hello\n", [])
            code, _, blocked = await run(here, connecting("tcp", other), profile)
            assert (code, blocked) == (
                1,
                [f"connection to port {other} by {blocked[0].split()[-1]}"],
            )
            assert (await run(here, connecting("tcp", named)))[0] == 1
            assert (await run(here, connecting("tcp", 1), profile))[0] == 1
            group.cancel_scope.cancel()


async def test_only_the_named_socket_can_be_reached(here: LocalEnvironment, tmp_path: Path) -> None:
    folder = Path("/tmp") / f"hermes-test-{os.getpid()}"
    folder.mkdir(mode=0o700)
    named, other = str(folder / "named"), str(folder / "other")
    try:
        with socket.socket(socket.AF_UNIX) as one, socket.socket(socket.AF_UNIX) as two:
            for each, path in ((one, named), (two, other)):
                each.bind(path)
                each.listen()
            async with anyio.create_task_group() as group:
                group.start_soon(serve, one)
                group.start_soon(serve, two)
                profile = ConfinementProfile(sockets=(named,))
                assert await run(here, connecting("unix", named), profile) == (0, "hello\n", [])
                relative = f"cd {folder}; {connecting('unix', 'named')}"
                assert (await run(here, relative, profile))[:2] == (0, "hello\n")
                code, _, blocked = await run(here, connecting("unix", other), profile)
                assert code == 1
                assert blocked[0].startswith(f"connection to the socket {other}")
                assert (await run(here, connecting("unix", named)))[0] == 1
                group.cancel_scope.cancel()
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


async def test_background_processes_and_terminals_are_held_as_well(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    command = f"echo begun; echo changed > {tmp_path}/kept; read line; echo got $line; exit 7"
    for pty in (False, True):
        async with here.confined(ConfinementProfile()) as confined:
            process = await confined.start(command, pty=pty)
            told = b""
            with anyio.fail_after(120):
                while b"denied" not in told:
                    told += await process.output()
                await process.write(b"words\n")
                while piece := await process.output():
                    told += piece
                assert await process.wait() == 7
            assert b"got words" in told
            assert isinstance(process, ReportsRefusals)
            (refused,) = process.refused()
            assert str(refused) == f"write to {tmp_path}/kept by bash"
    assert (tmp_path / "kept").read_text() == "as it was"


async def test_a_background_process_stays_confined_after_us(tmp_path: Path) -> None:
    (tmp_path / "kept").write_text("as it was")
    (tmp_path / "out").mkdir()
    variables = {"PATH": os.environ["PATH"]}
    profile = ConfinementProfile(writable=(str(tmp_path / "out"),))
    command = "until [ -e go ]; do sleep 0.01; done; echo x > out/made; echo x > kept; exit 9"
    async with LocalEnvironment(tmp_path, variables, processes=tmp_path / "p") as place:
        process = await place.confined(profile).start(command)
    (tmp_path / "go").touch()
    assert await process.wait() == 9
    assert (tmp_path / "out" / "made").read_text() == "x\n"
    assert (tmp_path / "kept").read_text() == "as it was"


async def test_a_time_out_ends_a_confined_tree(here: LocalEnvironment) -> None:
    async with here.confined(ConfinementProfile()) as confined:
        with anyio.fail_after(120):
            result = await confined.run("setsid sleep 6161 & sleep 6161", timeout=0.3)
    assert result.timed_out
    left = await here.run("pgrep -fx 'sleep 6161' || true")
    assert left.output == ""


@pytest.mark.parametrize("pause_s", [0.0, 0.5])
async def test_a_killed_fork_server_is_replaced_and_nothing_runs_without_it(
    here: LocalEnvironment, tmp_path: Path, pause_s: float
) -> None:
    await anyio.sleep(pause_s)  # in which it forks the process that waits for a command
    line = here.server._server
    assert line is not None
    os.kill(line.pid, signal.SIGKILL)
    for _ in range(3):
        code, _, _ = await run(here, f"echo changed > {tmp_path}/kept")
        assert code == 1
    assert (tmp_path / "kept").read_text() == "as it was"


async def test_a_killed_process_that_waits_for_a_command_is_replaced(
    here: LocalEnvironment,
) -> None:
    assert (await run(here, "echo one"))[1] == "one\n"
    with anyio.fail_after(120):  # the next process is forked a moment after a command
        while not kill_waiting(here):  # noqa: ASYNC110 - another process cannot set an event
            await anyio.sleep(0.05)
    assert (await run(here, "echo two"))[1] == "two\n"


def kill_waiting(place: LocalEnvironment) -> bool:
    """The fork server and the process that it forked are the only ones with its argv."""
    line = place.server._server
    assert line is not None
    argv = Path(f"/proc/{line.pid}/cmdline").read_bytes()
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    waiting = [
        int(pid)
        for pid in children
        if int(pid) != line.pid and Path(f"/proc/{pid}/cmdline").read_bytes() == argv
    ]
    for pid in waiting:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    return bool(waiting)


async def test_what_cannot_be_confined_is_not_run(here: LocalEnvironment, tmp_path: Path) -> None:
    nested = (
        "import asyncio, os; from pathlib import Path\n"
        "from hermes.environments.local import LocalEnvironment\n"
        "from hermes.core.actions import ConfinementProfile\n"
        "async def main():\n"
        "    async with LocalEnvironment(Path('/tmp'), dict(os.environ)) as place:\n"
        "        print(await place.kernel_support())\n"
        "        async with place.confined(ConfinementProfile()) as confined:\n"
        "            print((await confined.run('echo ran')).output)\n"
        "asyncio.run(main())"
    )
    script = tmp_path / "work" / "nested.py"
    script.write_text(nested)
    _, output, _ = await run(here, f"{sys.executable} {script}")
    assert "Device or resource busy" in output  # only one filter can have a listener
    assert "ran\n" not in output
    assert EnvironmentFailed.__name__ in output


def test_a_repository_is_the_nearest_one_and_a_planted_link_is_not_believed(tmp_path: Path) -> None:
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    (tmp_path / "repo" / "sub").mkdir()
    assert find_repository_folders(str(tmp_path / "repo" / "sub"), files=False) == [
        str(tmp_path / "repo" / ".git")
    ]
    (tmp_path / "planted").mkdir()
    (tmp_path / "planted" / ".git").write_text(f"gitdir: {tmp_path}/repo/.git\n")
    assert find_repository_folders(str(tmp_path / "planted"), files=False) == []


async def test_git_records_and_its_worktrees_can_be_written(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    who = "git config --global user.email a@b; git config --global user.name a"
    setup = f"{who}; mkdir repo; cd repo; git init -q; echo 1 > a; git add a; git commit -qm one"
    assert (await here.run(f"{setup}; git worktree add -q ../tree")).exit_code == 0
    await here.run("cd ../tree; echo 2 > a")
    profile = ConfinementProfile(repository="records")
    assert (await run(here, "git commit -qam two; git log --oneline | wc -l", profile))[1] == "2\n"
    assert (await run(here, "echo 3 > a", profile))[0] == 1


@pytest.mark.parametrize(
    "field", [name for name, value in vars(VerdictRules).items() if isinstance(value, bool)]
)
def test_rules_that_need_another_filter_have_another_shape(field: str) -> None:
    plain, other = VerdictRules(), VerdictRules()
    for rules in (plain, other):
        rules.sees_processes = field == "may_attach"
    setattr(other, field, True)
    programs = [seccomp.compile_filter(build_filter(rules)) for rules in (plain, other)]
    assert (programs[0] == programs[1]) or plain.shape != other.shape


async def test_other_processes_can_be_seen_where_the_verdict_needs_it(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    if not (await here.kernel_support()).root:
        pytest.skip("only root can make the mount namespace")
    busy = "while :; do sleep 0.1; done"  # a call to be seen ends strace, when nobody reads on
    victim = subprocess.Popen(["bash", "-c", busy])  # noqa: ASYNC220
    try:
        look = f"ls -l /proc/{victim.pid}/fd | wc -l; echo changed > {tmp_path}/kept"
        seeing = ConfinementProfile(special=("processes",))
        _, output, blocked = await run(here, look, seeing)
        assert int(output.split()[0]) > 1
        assert blocked == [f"write to {tmp_path}/kept by bash"]
        _, _, blocked = await run(here, f"kill {victim.pid}", seeing)
        assert blocked == [f"signal to process {victim.pid} by bash"]
        traced = f"timeout 60 strace -p {victim.pid} 2>&1 | head -1"
        assert "not permitted" in (await run(here, traced, seeing))[1]
        attached = await run(here, traced, ConfinementProfile(special=("processes", "attach")))
        assert "attached" in attached[1]
        assert victim.poll() is None
        assert (tmp_path / "kept").read_text() == "as it was"
    finally:
        victim.kill()
        victim.wait()


STEAL = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
target = os.pidfd_open(int(sys.argv[1]))
stolen = libc.syscall(438, target, int(sys.argv[2]), 0)
print("stolen", stolen, ctypes.get_errno())
try:
    os.mknod(os.environ["TMPDIR"] + "/device", 0o20600, os.makedev(1, 11))
    print("device made")
except OSError as error:
    print("device", error.errno)
clone = 220 if os.uname().machine == "aarch64" else 56
print("namespace", libc.syscall(clone, 0x10000011, 0, 0, 0, 0))
"""


async def test_a_command_that_sees_processes_cannot_take_their_files_or_make_devices(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    if not (await here.kernel_support()).root:
        pytest.skip("only root can make the mount namespace")
    held = os.open(tmp_path / "kept", os.O_RDWR)
    try:
        await here.write("steal.py", STEAL.encode())
        look = f"{sys.executable} steal.py {os.getpid()} {held}"
        _, output, _ = await run(here, look, ConfinementProfile(special=("processes",)))
    finally:
        os.close(held)
    assert "stolen -1" in output
    assert "device 1" in output
    assert "namespace -1" in output


def test_a_judged_path_is_looked_up_when_the_command_starts(tmp_path: Path) -> None:
    folder, file = tmp_path / "folder", tmp_path / "file"
    folder.mkdir()
    file.touch()
    rules = resolve_rules(
        ConfinementProfile(writable=(str(folder), str(file), f"{tmp_path}/new")), "/"
    )
    assert rules.trees == (str(folder),)
    assert rules.exact == (str(folder), str(file), f"{tmp_path}/new")
