"""Ordinary reads that need more than reading files, and calls that no read has a use for."""

import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from hermes.core.actions import BlockedAccess, ConfinementProfile
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]
as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root has the right at all")


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    (tmp_path / "work").mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "work"), "LANG": "C.UTF-8"}
    place = LocalEnvironment(tmp_path / "work", variables, processes=tmp_path / "processes")
    async with place:
        await place.kernel_support()
        yield place


async def run(
    place: LocalEnvironment, command: str, profile: ConfinementProfile | None = None
) -> tuple[int, str, list[BlockedAccess]]:
    async with place.confined(profile or ConfinementProfile()) as confined:
        result = await confined.run(command, timeout=120)
        return result.exit_code, result.output.replace("\r", ""), confined.collect()


async def python(
    place: LocalEnvironment, code: str, profile: ConfinementProfile | None = None
) -> tuple[int, str, list[BlockedAccess]]:
    return await run(place, f"{sys.executable} - <<'E'\n{code}\nE", profile)


async def test_a_command_can_have_a_terminal_of_its_own(here: LocalEnvironment) -> None:
    command = "script -qc 'test -t 0 && test -t 1 && echo on a terminal' /dev/null"
    assert await run(here, command) == (0, "on a terminal\n", [])
    told = await python(here, "import pty; pty.spawn(['sh', '-c', 'tty | cut -c1-9'])")
    assert told == (0, "/dev/pts/\n", [])


async def test_a_terminal_of_another_program_stays_out_of_reach(here: LocalEnvironment) -> None:
    master, other = os.openpty()
    try:
        code, _, _ = await run(here, f"echo planted > {os.ttyname(other)}")
        assert code == 1
        os.set_blocking(master, False)
        with pytest.raises(BlockingIOError):
            os.read(master, 100)
    finally:
        os.close(master)
        os.close(other)


async def test_who_listens_on_a_port_can_be_asked(here: LocalEnvironment) -> None:
    code = "import socket, time; s = socket.socket(); s.bind(('127.0.0.1', 0)); s.listen(); "
    code += "print(s.getsockname()[1], flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as server:  # noqa: ASYNC220
        try:
            assert server.stdout is not None
            port = int(server.stdout.readline())
            profile = ConfinementProfile(special=("interfaces", "processes"))
            status, output, blocked = await run(here, f"fuser -v {port}/tcp", profile)
            assert (status, blocked) == (0, [])
            assert str(server.pid) in output
        finally:
            server.kill()


async def test_a_question_about_interfaces_sends_nothing(here: LocalEnvironment) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver:
        receiver.bind(("127.0.0.1", 0))
        receiver.setblocking(False)
        code = f"""
import ctypes, fcntl, socket
there = ("127.0.0.1", {receiver.getsockname()[1]})
def disconnect(s):
    s.connect(there)
    ctypes.CDLL(None).connect(s.fileno(), bytes(16), 16)
    s.sendto(b"x", there)
for send in (
    lambda s: s.sendto(b"x", there),
    lambda s: s.sendmsg([b"x"], [], 0, there),
    lambda s: (s.connect(there), s.send(b"x")),
    disconnect,
):
    try:
        send(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        print("sent")
    except OSError as error:
        print(error.strerror)
asked = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
print(socket.inet_ntoa(fcntl.ioctl(asked, 0x8915, b"lo".ljust(40, bytes(1)))[20:24]))
try:
    socket.socket(socket.AF_INET, socket.SOCK_STREAM)
except OSError as error:
    print(error.strerror)
"""
        profile = ConfinementProfile(special=("interfaces",))
        status, output, _ = await python(here, code, profile)
        expected = ["Broken pipe"] * 4 + ["127.0.0.1", "Permission denied"]
        assert (status, output.splitlines()) == (0, expected)
        with pytest.raises(BlockingIOError):
            receiver.recv(9)


async def test_reading_a_database_shows_no_refusal(here: LocalEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "work" / "db"
    with sqlite3.connect(file) as database:
        database.execute("create table a (b)")
    profile = ConfinementProfile(optional=(str(file),))
    code, output, blocked = await run(here, f"sqlite3 {file} 'select count(*) from a'", profile)
    assert (code, output) == (0, "0\n")
    assert [(each.what, each.optional) for each in blocked] == [(f"write to {file}", True)]
    missing = ConfinementProfile(optional=(f"{file}2",))
    _, _, blocked = await run(here, f"sqlite3 {file}2 'select 1 from a'", missing)
    assert [each.optional for each in blocked] == [False]


async def test_only_mktemp_makes_files_of_its_template(here: LocalEnvironment) -> None:
    form = f"/tmp/hermes-{os.getpid()}.XXXXXX"
    profile = ConfinementProfile(templates=(form,))
    code, output, blocked = await run(
        here, f"x=$(mktemp {form}) && echo in > $x && cat $x && rm $x", profile
    )
    assert (code, output, blocked) == (0, "in\n", [])
    code, _, blocked = await run(here, f"d=$(mktemp -d {form}) && touch $d/a && rm -r $d", profile)
    assert (code, blocked) == (0, [])
    for other in (form.replace("XXXXXX", "abcdef"), f"{form}x", "/tmp/hermes-planted"):
        code, _, blocked = await run(here, f"echo bad > {other}", profile)
        assert (code, [each.what for each in blocked]) == (1, [f"write to {other}"])
        assert await anyio.Path(other).exists() is False


CALL = "import ctypes; c = ctypes.CDLL(None, use_errno=True); "


async def test_extended_attributes_are_named_in_words(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    file = tmp_path / "work" / "file"
    file.write_text("")
    for number in (463, 466):  # setxattrat and removexattrat
        code = f"{CALL}print(c.syscall({number}, -100, b'{file}', 0, b'user.x', 0, 0))"
        _, _, blocked = await python(here, code)
        assert blocked[0].what == f"change extended attributes of {file}"
    for command, words in (("chmod 777", "mode"), ("touch -d 2001-01-01", "times")):
        _, _, blocked = await run(here, f"{command} {file}")
        assert f"change {words} of {file}" in [each.what for each in blocked]


@as_root
async def test_the_messages_of_the_kernel_can_be_read_and_not_cleared(
    here: LocalEnvironment,
) -> None:
    assert (await python(here, f"{CALL}print(c.klogctl(10, None, 0) > 0)"))[1] == "True\n"
    for kind in (2, 4, 5, 6, 8):
        code = f"{CALL}b = ctypes.create_string_buffer(9); print(c.klogctl({kind}, b, 1))"
        _, output, blocked = await python(here, code)
        assert (output, blocked[0].what) == ("-1\n", "system call syslog")


async def test_a_port_is_not_reached_by_sending_without_a_connection(
    here: LocalEnvironment,
) -> None:
    fast_open = "import socket; s = socket.socket(); s.sendto(b'x', 0x20000000, ('127.0.0.1', 9))"
    status, output, _ = await python(
        here, fast_open, ConfinementProfile(network="ports", ports=(80,))
    )
    assert (status, "Operation not permitted" in output) == (1, True)


async def test_multipath_tcp_is_not_a_way_around_the_ports(here: LocalEnvironment) -> None:
    code = "import socket; socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)"
    status, output, _ = await python(here, code, ConfinementProfile(network="any"))
    assert (status, "Protocol not supported" in output) == (1, True)


LISTEN = """
import os, socket
for family in (socket.AF_INET, socket.AF_INET6, socket.AF_UNIX):
    s = socket.socket(family)
    if family == socket.AF_UNIX:
        s.bind(f"{os.environ['TMPDIR']}/{os.getpid()}")
    try:
        s.listen(7)
        print("listens")
    except OSError as error:
        print(error.strerror)
"""


async def test_a_verdict_about_the_network_takes_no_port_of_its_own(here: LocalEnvironment) -> None:
    refused = "Permission denied\nPermission denied\nlistens\n"
    for network in (
        ConfinementProfile(network="ports", ports=(80,)),
        ConfinementProfile(network="any"),
    ):
        _, output, blocked = await python(here, LISTEN, network)
        assert (output, blocked[0].what) == (refused, "use of a port to listen on")
    named = ConfinementProfile(network="any", special=("listens",))
    assert (await python(here, LISTEN, named))[1] == "listens\n" * 3


async def test_control_of_devices_is_no_control_of_files(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    code = (
        f"import fcntl, os; f = os.open({str(file)!r}, os.O_RDONLY)\n"
        "for n in (0x40086602, 0x40087602):\n"
        " try: fcntl.ioctl(f, n, bytes(8)); print('done')\n"
        " except OSError as e: print(e.errno)"
    )
    _, output, blocked = await python(here, code, ConfinementProfile(special=("devices",)))
    assert (output, [each.what for each in blocked]) == ("1\n1\n", ["system call ioctl"])


async def test_the_variables_of_another_process_stay_hidden(here: LocalEnvironment) -> None:
    argv = ["env", "SECRET=word", "sleep", "60"]
    async with await anyio.open_process(argv) as process:
        looks = f"cat /proc/{process.pid}/environ /proc/{process.pid}/mem"
        _, output, _ = await run(here, looks)
        assert "word" not in output and output.count("Permission denied") == 2
        listed = await run(here, f"ps -o args= -p {process.pid}; ps aux > /dev/null")
        assert listed == (0, "sleep 60\n", [])
        process.kill()


@as_root
async def test_our_own_secrets_are_found_empty(tmp_path: Path) -> None:
    work, home = tmp_path / "work", tmp_path / "home"
    work.mkdir()
    home.mkdir()
    (home / ".env").write_text("KEY=word")
    (home / "notes").write_text("plain")
    hidden = (str(home / ".env"), str(home / "audit.key"))
    looks = (
        f"find {home} -type f | xargs cat; cat {home}/.env; cp {home}/.env $TMPDIR/x; cat $TMPDIR/x"
    )
    async with LocalEnvironment(work, {"PATH": os.environ["PATH"]}, hidden=hidden) as place:
        await place.kernel_support()
        assert (await run(place, looks))[1] == "plain"
        assert (await run(place, looks, ConfinementProfile(special=("processes",))))[1] == "plain"
        writes = ConfinementProfile(writable=(str(work),))
        assert (await run(place, f"cat {home}/.env > x; wc -c < x; ls", writes))[1] == "0\nx\n"
        assert "word" in (await run(place, looks, ConfinementProfile(own_secrets=True)))[1]
    assert (home / ".env").read_text() == "KEY=word"


LOCK = """
import fcntl, os, sys
def lock(path, how):
    file = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(file, how)
        print("locked")
    except OSError as error:
        print(error.strerror)
    return file
own = os.path.join(os.environ["TMPDIR"], str(os.getpid()))
open(own, "w").close()
kept = [lock({file!r}, fcntl.LOCK_EX | fcntl.LOCK_NB), lock({file!r}, fcntl.LOCK_SH)]
kept += [lock(own, fcntl.LOCK_EX | fcntl.LOCK_NB), lock(own, fcntl.LOCK_EX | fcntl.LOCK_NB)]
sys.stdout.flush()
if os.fork() == 0:
    import time; time.sleep(0.3)
    fcntl.flock(kept[2], fcntl.LOCK_UN)
    os._exit(0)
fcntl.flock(kept[3], fcntl.LOCK_EX)
print("waited")
"""


async def test_a_read_locks_no_file_of_others(here: LocalEnvironment, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    _, output, blocked = await python(here, LOCK.replace("{file!r}", repr(str(file))))
    answers = "Permission denied", "locked", "locked", "Resource temporarily unavailable", "waited"
    assert output.splitlines() == list(answers)
    assert [each.what for each in blocked] == [f"lock of {file}"]


async def test_no_process_is_signalled_by_a_descriptor(here: LocalEnvironment) -> None:
    code = (
        "import fcntl, os, socket; a, b = socket.socketpair(); "
        "tries = [lambda n=n: fcntl.fcntl(a, n, os.getppid()) for n in (8, 10)]; "
        "tries += [lambda: fcntl.ioctl(a, 0x8901, b'\\1\\0\\0\\0')]\n"
        "for each in tries:\n try: each(); print('done')\n except OSError as e: print(e.errno)"
    )
    profile = ConfinementProfile(special=("processes",))
    assert (await python(here, code, profile))[1] == "1\n1\n1\n"


@as_root
async def test_the_audit_system_is_out_of_reach(here: LocalEnvironment) -> None:
    code = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)"
    status, output, _ = await python(here, code)
    assert (status, "Protocol not supported" in output) == (1, True)
    rights = "grep CapEff /proc/self/status | cut -f2"
    audit = 1 << 29 | 1 << 30
    assert int((await run(here, rights))[1], 16) & audit == 0
    route = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)"
    assert (await python(here, route))[0] == 0


async def test_python_imports_no_module_of_the_working_folder(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "work" / "json.py").write_text("print('ran')")
    command = f"{sys.executable} -c 'import json; print(json.dumps(1))'"
    assert await run(here, command) == (0, "1\n", [])
    assert await run(here, "echo $PYTHONSAFEPATH") == (0, "1\n", [])
    assert "ran" in (await here.run(command, timeout=120)).output  # not confined
