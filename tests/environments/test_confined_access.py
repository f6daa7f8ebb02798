"""What confined commands cannot reach by rights that their programs need for something else."""

import os
import shlex
import socket
import sqlite3
import struct
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hermes.core.actions import ConfinementProfile
from hermes.environments.confinement.verdict_paths import find_connecting_files, resolve_rules
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason or ("" if os.geteuid() == 0 else "needs root")
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    (tmp_path / "work").mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "LANG": "C.UTF-8"}
    async with LocalEnvironment(tmp_path / "work", variables) as place:
        yield place


async def run(place: LocalEnvironment, command: str, profile: ConfinementProfile) -> str:
    async with place.confined(profile) as confined:
        return (await confined.run(command, timeout=60)).output


def is_readable(path: str) -> bool:
    return bool(Path(path).read_bytes())


def needed(*paths: Path) -> list[str]:
    profile = ConfinementProfile(needs=tuple(map(str, paths)))
    rules = resolve_rules(profile, "/")
    return [*rules.trees, *rules.files, *rules.exact]


def test_a_reader_of_a_database_may_write_only_beside_databases(tmp_path: Path) -> None:
    for name in ("real", "cron.d/real", "bin/real"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        with sqlite3.connect(tmp_path / name) as database:
            database.execute("create table a (b)")
    (tmp_path / "text").write_text("no database")
    (tmp_path / "folder").mkdir()
    assert needed(tmp_path / "real-wal", tmp_path / "real-shm") == [
        str(tmp_path / "real-wal"),
        str(tmp_path / "real-shm"),
    ]
    for name in ("text", "missing", "folder", "cron.d/real", "bin/real", "no/such"):
        assert needed(tmp_path / f"{name}-wal", tmp_path / f"{name}-shm") == []
    (tmp_path / "real-wal").symlink_to("/etc/hosts")
    assert needed(tmp_path / "real-wal") == []


def test_what_a_program_needs_is_no_link_in_a_folder_of_everybody(tmp_path: Path) -> None:
    shared = tmp_path / "shared"
    shared.mkdir()
    (shared / "lock").symlink_to("/etc/hosts")
    assert needed(shared / "lock") == ["/etc/hosts"]
    shared.chmod(0o1777)
    assert needed(shared / "lock") == []


async def test_a_write_beside_a_file_that_is_no_database_is_refused(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    profile = ConfinementProfile(needs=(f"{tmp_path}/job-wal",))
    await run(here, f"echo x > {tmp_path}/job-wal", profile)
    assert not (tmp_path / "job-wal").exists()


@pytest.mark.parametrize("special", ["devices", "processes"])
@pytest.mark.parametrize("where", ["{pid}", "{pid}/task/{thread}", "{thread}"])
async def test_the_environment_of_hermes_is_hidden(
    here: LocalEnvironment, special: str, where: str
) -> None:
    """Both rights would show it: they keep capabilities, or have no Landlock."""
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        folder = "/proc/" + where.format(pid=os.getpid(), thread=other.native_id)
        assert is_readable(f"{folder}/environ")
        profile = ConfinementProfile(special=(special,))
        code = (
            f"cat {folder}/environ | wc -c; stat -c %s {folder}/mem; head -c 9 {folder}/mem | wc -c"
        )
        assert (await run(here, code, profile)).split() == ["0", "0", "0"]
        assert "self" in await run(here, "cat /proc/self/comm; echo self; ls /proc/1", profile)
    finally:
        stop.set()
        other.join()


LEASE = """
import fcntl, sys
file = open(sys.argv[1])
for kind in (fcntl.F_WRLCK, fcntl.F_RDLCK):
    try:
        fcntl.fcntl(file, fcntl.F_SETLEASE, kind)
        print("taken")
    except OSError as error:
        print(error.errno)
fcntl.fcntl(file, fcntl.F_SETLEASE, fcntl.F_UNLCK) if len(sys.argv) > 2 else None
print(fcntl.fcntl(file, fcntl.F_GETLEASE))
"""


async def test_no_lease_keeps_others_waiting(here: LocalEnvironment, tmp_path: Path) -> None:
    file, script = tmp_path / "file", tmp_path / "lease.py"
    file.write_text("x")
    script.write_text(LEASE)
    command = f"{sys.executable} {script} {file}"
    assert (await here.run(command)).output.split()[0] == "taken"
    assert (await run(here, command, ConfinementProfile())).split() == ["1", "1", "2"]


CONNECT_OFTEN = """
import fcntl, os, socket, sys
wrong = 0
for _ in range(500):
    one = socket.socket(socket.AF_UNIX)
    one.connect(sys.argv[1])
    wrong += bool(fcntl.fcntl(one, fcntl.F_GETFL) & os.O_NONBLOCK)
    one.close()
print(wrong, "of 500 do not wait for an answer")
"""


async def test_a_connected_socket_waits_for_its_answers(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    address = str(tmp_path / "service")
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(address)
        service.listen(1000)
        (tmp_path / "connect.py").write_text(CONNECT_OFTEN)
        command = f"{sys.executable} -I {tmp_path}/connect.py {address}"
        printed = await run(here, command, ConfinementProfile(sockets=(address,)))
    assert printed.strip() == "0 of 500 do not wait for an answer"


async def test_sessions_of_queries_that_read_are_read_only(here: LocalEnvironment) -> None:
    reading = ConfinementProfile(read_only_databases=True)
    for profile, shown in ((reading, "-c default_transaction_read_only=on"), (None, "none")):
        printed = await run(here, 'echo "${PGOPTIONS:-none}"', profile or ConfinementProfile())
        assert printed.strip() == shown


async def test_a_link_made_by_the_command_itself_leads_nowhere_else(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    (outside / "kept").write_text("x")
    (tmp_path / "work/l").symlink_to(outside)
    profile = ConfinementProfile(changes=True, writable=(str(inside),))
    unpack = f"tar c l | tar x -C {inside}; cp -P l {inside}/copied"
    await run(here, f"{unpack}; echo y > {inside}/l/new; rm -rf {inside}/copied/", profile)
    assert (inside / "l").is_symlink()
    assert [each.name for each in outside.iterdir()] == ["kept"]


async def test_no_file_that_a_command_writes_gets_larger_than_it_may(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    profile = ConfinementProfile(writable=(str(folder),), max_file_bytes=1 << 20)
    out = await run(here, "ulimit -f unlimited; head -c 3M /dev/zero > big; echo ended $?", profile)
    assert "ended 0" not in out
    assert (folder / "big").stat().st_size == 1 << 20
    approved = ConfinementProfile(writable=(str(folder),))
    assert "ended 0" in await run(here, "head -c 3M /dev/zero > big; echo ended $?", approved)


async def test_no_process_of_a_command_takes_more_than_half_of_the_memory(
    here: LocalEnvironment,
) -> None:
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limited = ConfinementProfile(max_file_bytes=1 << 20)
    allowed_kb = max(1 << 30, memory // 2) >> 10
    assert await run(here, "ulimit -Hd", limited) == f"{allowed_kb}\n"
    assert "unlimited" in await run(here, "ulimit -Hd", ConfinementProfile())


CONNECT = "import socket; socket.create_connection(('127.0.0.1', {port})).send(b'x')"

FORK_AND_START = (
    "import os, sys; os.fork() or os.execvp(sys.argv[1], sys.argv[1:]); exit(os.wait()[1] > 0)"
)


@pytest.fixture
def port() -> Iterator[int]:
    """A server that answers every request."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server.server_address[1]
    server.shutdown()
    server.server_close()


async def test_the_network_of_one_program_is_not_for_its_neighbours(
    here: LocalEnvironment, port: int
) -> None:
    profile = ConfinementProfile(network="ports", ports=(port,), connecting=("curl",))
    fetch = f"curl -sSf -o /dev/null http://127.0.0.1:{port}/"
    code = CONNECT.format(port=port)
    for plain in (
        fetch,
        f"timeout 60 {fetch}",
        f"( {fetch} )",
        f"true | {fetch}",
        f"sh -c '{fetch}'",
        f"timeout 60 bash -c '{fetch}; true'",
    ):
        assert await run(here, f"{plain} && echo fetched", profile) == "fetched\n", plain
    python = sys.executable
    for neighbour in (
        f'{python} -c "{code}"',
        f"awk 'BEGIN {{ exit system(\"{fetch}\") }}'",
        f'{python} -c "{FORK_AND_START}" {fetch}',
        f": > /dev/tcp/127.0.0.1/{port}",
        f"echo {fetch} | xargs timeout 60",
        f"timeout 60 {python} -c '{code.replace(chr(39), chr(34))}'",
    ):
        shown = await run(here, f"{fetch} && {{ {neighbour} && echo reached; true; }}", profile)
        assert "reached" not in shown, shown
        async with here.confined(profile) as confined:
            await confined.run(f"{fetch}; {neighbour}", timeout=60)
            blocked = [str(each) for each in confined.collect()]
        assert any("the network (IPv4)" in each for each in blocked), (neighbour, blocked)


async def test_the_socket_of_a_service_is_for_the_program_that_asks_it(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    path = tmp_path / "service"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        server.listen()
        code = f"import socket; socket.socket(socket.AF_UNIX).connect('{path}'); print('reached')"
        command = f'{sys.executable} -c "{code}"'
        for connecting, reached in (((), True), (("curl",), False), (("python3",), True)):
            profile = ConfinementProfile(sockets=(str(path),), connecting=connecting)
            if connecting == ("python3",) and not is_machine_code("python3"):
                continue
            assert ("reached" in await run(here, command, profile)) == reached, connecting


def is_machine_code(name: str) -> bool:
    return bool(find_connecting_files((name,), os.get_exec_path()))


async def test_a_program_that_is_a_script_leaves_the_network_to_all(
    here: LocalEnvironment, tmp_path: Path, port: int
) -> None:
    (tmp_path / "tool").write_text("#!/bin/sh\n")
    (tmp_path / "tool").chmod(0o755)
    folders = [*os.get_exec_path(), str(tmp_path)]
    assert find_connecting_files(("curl",), folders)
    for names in (("curl", "tool"), ("no-such-program",), ()):
        assert find_connecting_files(names, folders) == ()


async def test_a_command_that_fills_the_disk_with_many_files_is_ended(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    size = 4 << 20  # the smallest limit of a file is 16 MiB
    profile = ConfinementProfile(
        changes=True, writable=(str(tmp_path / "out"),), max_file_bytes=size
    )
    write = f"mkdir {tmp_path}/out; for n in {{1..9}}; do head -c {size} /dev/zero > out/$n; done"
    async with here.confined(profile) as confined:
        result = await confined.run(f"{write}; sleep 300", timeout=120, cwd=str(tmp_path))
        blocked = [each.what for each in confined.collect()]
        assert not result.timed_out
        assert blocked == ["more than 16 MiB in all; it was ended"]
    async with here.confined(profile) as confined:
        result = await confined.run(f"rm -r {tmp_path}/out; echo removed", timeout=120)
        assert (result.output, confined.collect()) == ("removed\n", [])


async def test_a_server_sees_the_user_that_a_confined_command_has_become(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    """PostgreSQL logs a user in by what the kernel says of the other end of its socket."""
    at = tmp_path / "server"
    seen: list[int] = []
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(at))
        at.chmod(0o777)
        server.listen()

        def answer() -> None:
            for _ in range(2):
                peer, _ = server.accept()
                with peer:
                    found = peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
                    seen.append(struct.unpack("3i", found)[1])

        thread = threading.Thread(target=answer)
        thread.start()
        text = f"import socket; socket.socket(socket.AF_UNIX).connect({str(at)!r})"
        call = f"{sys.executable} -S -c {shlex.quote(text)}"
        other = "setpriv --reuid 65534 --regid 65534 --clear-groups"
        profile = ConfinementProfile(sockets=(str(at),))
        said = await run(here, f"{call}; {other} {call}", profile)
        thread.join()
    assert seen == [0, 65534], said
