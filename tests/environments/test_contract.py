"""What every environment promises; `conftest.PLACES` says which ones are asked."""

import secrets
import time
from collections.abc import AsyncIterator

import anyio
import pytest

from hermes.core.errors import ToolError
from hermes.core.protocols import BackgroundProcess, Environment, StartsProcesses

pytestmark = pytest.mark.anyio


async def said(place: Environment, command: str) -> str:
    result = await place.run(command, timeout=30)
    assert result.exit_code == 0, result
    return result.output


async def alive(place: Environment, pid: str) -> bool:
    seen = await place.run(f"grep -q '^State:[[:space:]]*[RSDTtI]' /proc/{pid}/status 2>/dev/null")
    return seen.exit_code == 0


async def until_gone(place: Environment, pid: str) -> None:
    with anyio.fail_after(10):
        while True:
            if not await alive(place, pid):
                return
            await anyio.sleep(0.02)


async def until_file(place: Environment, path: str) -> str:
    with anyio.fail_after(10):
        while True:
            found = await place.run(f"cat {path} 2>/dev/null")
            if found.exit_code == 0 and found.output.strip():
                return found.output.strip()
            await anyio.sleep(0.02)


async def test_it_says_what_and_where_it_is(place: Environment) -> None:
    assert place.name
    assert place.target
    assert isinstance(place.isolated, bool)


async def test_the_working_folder_persists(place: Environment) -> None:
    await said(place, "mkdir -p one/two; cd one/two")
    assert (await said(place, "pwd")).rstrip().endswith("/one/two")
    assert (await said(place, 'cd - >/dev/null; basename "$OLDPWD"')) == "two\n"


async def test_variables_functions_aliases_and_options_persist(place: Environment) -> None:
    await said(
        place,
        "plain='a  b'; export SHOWN=c; list=(1 'two words'); declare -A map=([k]=v)\n"
        "greet() { echo \"hello $1\"; }\nalias shout='echo LOUD'\n"
        "set -o pipefail; shopt -s extglob nullglob; umask 027",
    )
    told = await said(
        place,
        "echo \"$plain|${list[1]}|${map[k]}\"; bash -c 'echo $SHOWN'; greet you; shout; umask\n"
        "set -o | grep -c 'pipefail.*on'; shopt extglob nullglob | grep -c on",
    )
    assert told.split("\n")[:-1] == ["a  b|two words|v", "c", "hello you", "LOUD", "0027", "1", "2"]


async def test_what_was_unset_stays_unset(place: Environment) -> None:
    await said(place, "export GONE=1; unset HOME")
    await said(place, "unset GONE")
    assert await said(place, 'echo "${GONE-none} ${HOME-none}"') == "none none\n"


async def test_an_exit_is_only_the_end_of_the_command(place: Environment) -> None:
    result = await place.run("mkdir -p kept; cd kept; x=1; exit 3")
    assert result.exit_code == 3
    assert await said(place, 'echo "$? $x ${PWD##*/}"') == "3 1 kept\n"


async def test_set_e_ends_one_command_and_no_later_one(place: Environment) -> None:
    assert (await place.run("set -e; x=before; false; x=after")).exit_code == 1
    assert await said(place, "false; echo $x") == "before\n"


async def test_a_first_command_that_replaces_its_shell_spoils_nothing(place: Environment) -> None:
    assert (await place.run("exec true")).exit_code == 0
    assert await said(place, "echo ${HOME+home} fine") == "home fine\n"


async def test_a_replaced_shell_leaves_the_state_of_before(place: Environment) -> None:
    await said(place, "x=1")
    result = await place.run("x=2; exec echo replaced")
    assert (result.exit_code, result.output) == (0, "replaced\n")
    assert await said(place, "echo $x") == "1\n"


async def test_a_syntax_error_is_an_ordinary_failure(place: Environment) -> None:
    await said(place, "x=1")
    for broken in ("if true", "echo 'open", "((", ")"):
        result = await place.run(broken)
        assert result.exit_code != 0
        assert result.output
    assert await said(place, "echo $x") == "1\n"


async def test_errors_name_the_line_of_the_command(place: Environment) -> None:
    result = await place.run("true\nno_such_program")
    assert result.exit_code == 127
    assert "line 2: no_such_program" in result.output


async def test_here_documents_and_comments_at_the_end_work(place: Environment) -> None:
    assert await said(place, "x=1\ncat <<END\nx is $x\nEND") == "x is 1\n"
    assert await said(place, "echo done # and a comment") == "done\n"


async def test_tracing_shows_the_command_and_nothing_of_ours(place: Environment) -> None:
    await place.run("set -x")
    result = await place.run("echo traced")
    assert result.output.splitlines()[-1] == "traced"
    assert "hermes" not in result.output
    assert len(result.output.splitlines()) == 2
    await place.run("set +x")
    assert await said(place, "echo quiet") == "quiet\n"


async def test_both_streams_come_in_the_order_they_were_written(place: Environment) -> None:
    assert await said(place, "echo 1; echo 2 >&2; echo 3; echo 4 >&2") == "1\n2\n3\n4\n"


async def test_commands_side_by_side_start_from_the_same_state(place: Environment) -> None:
    await said(place, "x=shared")
    told: list[str] = []

    async def one(number: int) -> None:
        told.append(await said(place, f"sleep 0.3; echo $x {number}"))

    started = time.monotonic()
    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(one, number)
    assert sorted(told) == [f"shared {number}\n" for number in range(4)]
    assert time.monotonic() - started < 4 * 0.3 + 5


async def test_a_timeout_is_said_and_keeps_the_state_of_before(place: Environment) -> None:
    await said(place, "x=before")
    started = time.monotonic()
    result = await place.run("x=after; cd /; echo begun; sleep 60", timeout=0.5)
    assert time.monotonic() - started < 10
    assert result.timed_out
    assert result.exit_code == 124
    assert result.output.startswith("begun\n")
    assert await said(place, "echo $x") == "before\n"
    assert await said(place, "pwd") != "/\n"


async def test_a_timeout_ends_those_that_ignore_it_and_those_that_fork_away(
    place: Environment,
) -> None:
    name = f"/tmp/pids-{secrets.token_hex(6)}"
    stubborn = f"trap '' TERM HUP INT; echo $BASHPID >> {name}; while :; do sleep 1; done"
    result = await place.run(
        f'( setsid bash -c "{stubborn.replace("$", chr(92) + "$")}" & )\n'
        f"until [ -s {name} ]; do sleep 0.01; done\n{stubborn}",
        timeout=1.5,
    )
    assert result.timed_out
    pids = (await said(place, f"cat {name}; rm -f {name}")).split()
    assert len(pids) == 2
    for pid in pids:
        await until_gone(place, pid)


async def test_cancelling_ends_the_tree_at_once(place: Environment) -> None:
    name = f"/tmp/pid-{secrets.token_hex(6)}"
    pid, cancelled_at = "", 0.0
    async with anyio.create_task_group() as group:
        group.start_soon(place.run, f"trap '' TERM; echo $$ > {name}; sleep 60; sleep 60")
        pid = await until_file(place, name)
        cancelled_at = time.monotonic()
        group.cancel_scope.cancel()
    assert time.monotonic() - cancelled_at < 5
    await until_gone(place, pid)
    await said(place, f"rm -f {name}")


async def test_a_child_left_behind_does_not_hold_the_command(place: Environment) -> None:
    started = time.monotonic()
    pid = (await said(place, "sleep 30 & echo $!")).strip()
    assert time.monotonic() - started < 5
    assert await alive(place, pid)
    await place.run(f"kill {pid}")


async def test_a_child_left_behind_may_go_on_printing(place: Environment) -> None:
    name = f"/tmp/went-on-{secrets.token_hex(6)}"
    await said(place, f"(sleep 0.2; echo late; sleep 0.1; echo later; echo yes > {name}) &")
    assert await until_file(place, name) == "yes"
    await said(place, f"rm -f {name}")


async def test_stdin_is_what_was_given(place: Environment) -> None:
    data = bytes(range(256)) * 1000
    result = await place.run("cat > given; echo rest; cat", stdin=data)
    assert result.output == "rest\n"
    assert await place.read("given") == data


async def test_without_stdin_nothing_waits_for_a_person(place: Environment) -> None:
    with anyio.fail_after(10):
        result = await place.run("read -r answer; echo got $?; cat; echo end")
    assert result.output == "got 1\nend\n"


async def test_a_program_that_wants_a_terminal_gets_none(place: Environment) -> None:
    with anyio.fail_after(10):
        assert (await place.run("[ -t 0 ] || [ -t 1 ] || exec 3< /dev/tty")).exit_code != 0


async def test_binary_output_breaks_nothing(place: Environment) -> None:
    result = await place.run(r"printf 'a\xff\xfe\x00b\xc3\xa9'")
    assert result.output == "a\ufffd\ufffd\x00bé"


async def test_much_output_keeps_head_and_tail(place: Environment) -> None:
    result = await place.run(
        "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last", timeout=60
    )
    assert result.exit_code == 0
    assert result.output.startswith("first\nxxx")
    assert result.output.endswith("xxx\nlast\n")
    assert len(result.output) < 300_000
    assert result.dropped_bytes > 19_000_000
    assert f"{result.dropped_bytes:,}" in result.output


async def test_a_deleted_working_folder_is_left_and_said(place: Environment) -> None:
    await said(place, "mkdir -p parent/child; cd parent/child; rm -rf ../child")
    result = await place.run("pwd")
    assert "is gone" in result.output
    assert result.output.rstrip().endswith("/parent")
    assert "is gone" not in (await place.run("pwd")).output


async def test_a_folder_given_is_for_that_command_alone(place: Environment) -> None:
    before = await said(place, "mkdir -p given; pwd")
    assert (await place.run("pwd", cwd="given")).output == before.rstrip() + "/given\n"
    assert (await place.run("cd /; pwd", cwd="/tmp")).output == "/\n"
    assert await said(place, "pwd") == before


async def test_a_folder_that_is_not_there_runs_nothing(place: Environment) -> None:
    result = await place.run("echo ran", cwd="/no/such/folder")
    assert result.exit_code != 0
    assert "/no/such/folder" in result.output
    assert "ran\n" not in result.output


async def test_a_very_long_command_runs(place: Environment) -> None:
    assert await said(place, f"x='{'a' * 300_000}'; echo ${{#x}}") == "300000\n"
    assert await said(place, "echo ${#x}; unset x") == "300000\n"


async def test_a_command_that_no_program_can_be_given_is_refused(place: Environment) -> None:
    for bad in ("echo \0", "echo \ud800", "echo \ud800" + "x" * 200_000):
        with pytest.raises(ToolError):
            await place.run(bad)


async def test_a_command_sees_nothing_of_ours(place: Environment) -> None:
    names = [line.partition("=")[0] for line in (await said(place, "env")).splitlines()]
    assert not [name for name in names if name.startswith("HERMES_") and name != "HERMES_TREE"]
    assert not [name for name in names if name.endswith(("_API_KEY", "_TOKEN"))]


async def test_pkill_does_not_hit_the_shell_that_runs_it(place: Environment) -> None:
    word = f"unique-{secrets.token_hex(6)}"
    result = await place.run(f"grep -qz {word} /proc/$$/cmdline; echo $?")
    assert result.output == "1\n"


async def test_files_come_back_as_they_were_written(place: Environment) -> None:
    data = bytes(range(256)) * 4000
    await place.write("new/folders/file.bin", data)
    assert await place.read("new/folders/file.bin") == data
    assert await place.read("new/folders/file.bin", offset=10, limit=5) == data[10:15]
    assert await place.read("new/folders/file.bin", offset=len(data) - 2) == data[-2:]
    assert await place.read("new/folders/file.bin", offset=len(data) + 5) == b""
    await place.write("new/folders/file.bin", b"")
    assert await place.read("new/folders/file.bin") == b""


async def test_files_are_those_that_commands_see(place: Environment) -> None:
    await said(place, "mkdir -p sub; cd sub; printf old > file")
    assert await place.read("file") == b"old"
    await place.write("file", b"new")
    assert await said(place, "cat file; cd ..") == "new"
    assert await place.read("sub/file") == b"new"


async def test_odd_names_are_names(place: Environment) -> None:
    for name in ("two\nlines", "-rf", " spaced ", "quo'te\"d", "$(touch hit)", "ünï", "a;b", "*"):
        await place.write(f"odd/{name}", name.encode())
        assert await place.read(f"odd/{name}") == name.encode()
    assert await said(place, "cd odd; find . -type f | grep -c .; cd ..") == "9\n"
    result = await place.run("pwd; echo here", cwd="odd")
    assert result.exit_code == 0


async def test_a_working_folder_may_have_an_odd_name(place: Environment) -> None:
    await said(place, "mkdir -p $'odd\\nname '; cd $'odd\\nname '; echo x > file")
    assert (await said(place, "cat file")) == "x\n"
    assert await place.read("file") == b"x\n"


async def test_what_cannot_be_read_is_told(place: Environment) -> None:
    await said(place, "mkdir -p folder; mkfifo pipe")
    for path in ("missing", "folder", "pipe", "", "nul\0byte"):
        with pytest.raises(ToolError):
            await place.read(path)


async def test_what_cannot_be_written_is_told(place: Environment) -> None:
    await said(place, "mkdir -p folder; echo x > file")
    for path in ("folder", "file/below", "", "nul\0byte"):
        with pytest.raises(ToolError):
            await place.write(path, b"x")
    assert await place.read("file") == b"x\n"


async def test_writing_keeps_the_mode_and_follows_links(place: Environment) -> None:
    await said(place, "echo old > target; chmod 751 target; ln -sf target link")
    await place.write("link", b"new")
    assert await said(place, "stat -c %a target; cat target; readlink link") == "751\nnewtarget\n"


async def test_two_writers_of_one_file_leave_one_of_both(place: Environment) -> None:
    texts = [bytes([letter]) * 500_000 for letter in b"ab"]
    await place.write("fought-over", texts[0])
    async with anyio.create_task_group() as group:
        for text in texts * 4:
            group.start_soon(place.write, "fought-over", text)
        for _ in range(4):
            assert await place.read("fought-over") in texts
    assert await place.read("fought-over") in texts
    assert await said(place, "ls -A | grep -c hermes || true") == "0\n"


@pytest.fixture
async def starter(place: Environment) -> AsyncIterator[StartsProcesses]:
    if not isinstance(place, StartsProcesses):
        pytest.skip(f"{place.name} starts no background processes")
    yield place


async def everything(process: BackgroundProcess) -> bytes:
    told = b""
    with anyio.fail_after(20):
        while piece := await process.output():
            told += piece
    return told


async def test_a_process_runs_talks_and_ends(starter: StartsProcesses) -> None:
    process = await starter.start("echo ready; read -r x; echo got $x >&2; exit 7")
    with anyio.fail_after(20):
        assert await process.output() == b"ready\n"
        await process.write(b"word\n")
        assert await everything(process) == b"got word\n"
        assert await process.wait() == 7
    assert await process.output() == b""


async def test_a_process_starts_from_the_session_and_leaves_it_alone(
    place: Environment, starter: StartsProcesses
) -> None:
    await said(place, "mkdir -p inner; cd inner; x=kept")
    process = await starter.start("echo $x ${PWD##*/}; x=lost; cd /")
    assert await everything(process) == b"kept inner\n"
    assert await said(place, "echo $x ${PWD##*/}") == "kept inner\n"
    other = await starter.start("pwd", cwd="/tmp")
    assert await everything(other) == b"/tmp\n"


async def test_killing_a_process_ends_its_tree(
    place: Environment, starter: StartsProcesses
) -> None:
    process = await starter.start(
        "trap '' TERM; (setsid sleep 61 & echo $!); echo $$; sleep 62; sleep 63"
    )
    told = b""
    with anyio.fail_after(20):
        while told.count(b"\n") < 2:
            told += await process.output()
        await process.kill()
    for pid in told.decode().split():
        await until_gone(place, pid)
    assert await process.wait() not in (0, None)


async def test_a_process_with_a_terminal_has_one(starter: StartsProcesses) -> None:
    process = await starter.start(
        "[ -t 0 ] && [ -t 1 ] && echo yes; read -r x; echo got $x", pty=True
    )
    with anyio.fail_after(20):
        told = await process.output()
        assert b"yes" in told
        await process.write(b"word\n")
        assert b"got word" in await everything(process)
        assert await process.wait() == 0


async def test_a_process_is_found_again_by_its_handle(starter: StartsProcesses) -> None:
    process = await starter.start("echo before; read -r x; echo got $x")
    with anyio.fail_after(20):
        assert await process.output() == b"before\n"
        again = await starter.find(process.handle)
        assert again is not None
        assert await again.output() == b"before\n"
        await again.write(b"word\n")
        assert await again.output() == b"got word\n"
        await again.wait()
        await process.wait()
    assert await everything(process) in (b"", b"got word\n")
    assert await starter.find("nonsense") is None
    assert await starter.find(process.handle) is None
