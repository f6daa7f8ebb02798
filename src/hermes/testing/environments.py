"""What every environment promises."""

import secrets
import time
from collections.abc import AsyncIterator

import anyio
import pytest

from hermes.core.errors import ToolError
from hermes.core.protocols import BackgroundProcess, Environment, StartsProcesses

ANSWER_TIMEOUT_S = 60.0
"""No figure: environments may be slow, and machines busy."""


class ContractSuite:
    """Tests run on asyncio, as Hermes does. A subclass whose name begins with `Test` is run."""

    pytestmark = pytest.mark.anyio

    @pytest.fixture
    def anyio_backend(self) -> str:
        return "asyncio"


class EnvironmentContract(ContractSuite):
    """Needs the fixture `environment`: an entered environment with an empty working folder."""

    async def test_it_says_what_and_where_it_is(self, environment: Environment) -> None:
        assert environment.name
        assert environment.target
        assert isinstance(environment.isolated, bool)

    async def test_the_working_folder_persists(self, environment: Environment) -> None:
        await output_of(environment, "mkdir -p one/two; cd one/two")
        assert (await output_of(environment, "pwd")).rstrip().endswith("/one/two")
        assert (await output_of(environment, 'cd - >/dev/null; basename "$OLDPWD"')) == "two\n"

    async def test_variables_functions_aliases_and_options_persist(
        self, environment: Environment
    ) -> None:
        await output_of(
            environment,
            "plain='a  b'; export SHOWN=c; list=(1 'two words'); declare -A map=([k]=v)\n"
            "greet() { echo \"hello $1\"; }\nalias shout='echo LOUD'\n"
            "set -o pipefail; shopt -s extglob nullglob; umask 027",
        )
        output = await output_of(
            environment,
            "echo \"$plain|${list[1]}|${map[k]}\"; bash -c 'echo $SHOWN'; greet you; shout; umask\n"
            "set -o | grep -c 'pipefail.*on'; shopt extglob nullglob | grep -c on",
        )
        assert output.split("\n")[:-1] == [
            "a  b|two words|v",
            "c",
            "hello you",
            "LOUD",
            "0027",
            "1",
            "2",
        ]

    async def test_what_was_unset_stays_unset(self, environment: Environment) -> None:
        await output_of(environment, "export GONE=1; unset HOME")
        await output_of(environment, "unset GONE")
        assert await output_of(environment, 'echo "${GONE-none} ${HOME-none}"') == "none none\n"

    async def test_an_exit_is_only_the_end_of_the_command(self, environment: Environment) -> None:
        result = await environment.run("mkdir -p kept; cd kept; x=1; exit 3")
        assert result.exit_code == 3
        assert await output_of(environment, 'echo "$? $x ${PWD##*/}"') == "3 1 kept\n"

    async def test_set_e_ends_one_command_and_no_later_one(self, environment: Environment) -> None:
        assert (await environment.run("set -e; x=before; false; x=after")).exit_code == 1
        assert await output_of(environment, "false; echo $x") == "before\n"

    async def test_a_first_command_that_replaces_its_shell_spoils_nothing(
        self, environment: Environment
    ) -> None:
        assert (await environment.run("exec true")).exit_code == 0
        assert await output_of(environment, "echo ${HOME+home} fine") == "home fine\n"

    async def test_a_replaced_shell_leaves_the_state_of_before(
        self, environment: Environment
    ) -> None:
        await output_of(environment, "x=1")
        result = await environment.run("x=2; exec echo replaced")
        assert (result.exit_code, result.output) == (0, "replaced\n")
        assert await output_of(environment, "echo $x") == "1\n"

    async def test_a_syntax_error_is_an_ordinary_failure(self, environment: Environment) -> None:
        await output_of(environment, "x=1")
        for broken in ("if true", "echo 'open", "((", ")"):
            result = await environment.run(broken)
            assert result.exit_code != 0
            assert result.output
        assert await output_of(environment, "echo $x") == "1\n"

    async def test_errors_name_the_line_of_the_command(self, environment: Environment) -> None:
        result = await environment.run("true\nno_such_program")
        assert result.exit_code == 127
        assert "line 2: no_such_program" in result.output

    async def test_here_documents_and_comments_at_the_end_work(
        self, environment: Environment
    ) -> None:
        assert await output_of(environment, "x=1\ncat <<END\nx is $x\nEND") == "x is 1\n"
        assert await output_of(environment, "echo done # and a comment") == "done\n"

    async def test_tracing_shows_the_command_and_nothing_of_ours(
        self, environment: Environment
    ) -> None:
        await environment.run("set -x")
        result = await environment.run("echo traced")
        assert result.output.splitlines()[-1] == "traced"
        assert "hermes" not in result.output
        assert len(result.output.splitlines()) == 2
        await environment.run("set +x")
        assert await output_of(environment, "echo quiet") == "quiet\n"

    async def test_both_streams_come_in_the_order_they_were_written(
        self, environment: Environment
    ) -> None:
        assert (
            await output_of(environment, "echo 1; echo 2 >&2; echo 3; echo 4 >&2") == "1\n2\n3\n4\n"
        )

    async def test_commands_side_by_side_start_from_the_same_state(
        self, environment: Environment
    ) -> None:
        await output_of(environment, "x=shared")
        output: list[str] = []

        async def one(number: int) -> None:
            output.append(await output_of(environment, f"sleep 0.3; echo $x {number}"))

        started = time.monotonic()
        async with anyio.create_task_group() as group:
            for number in range(4):
                group.start_soon(one, number)
        assert sorted(output) == [f"shared {number}\n" for number in range(4)]
        assert time.monotonic() - started < 4 * 0.3 + 5

    async def test_a_timeout_is_said_and_keeps_the_state_of_before(
        self, environment: Environment
    ) -> None:
        await output_of(environment, "x=before")
        started = time.monotonic()
        result = await environment.run("x=after; cd /; echo begun; sleep 60", timeout=0.5)
        assert time.monotonic() - started < 10
        assert result.timed_out
        assert result.exit_code == 124
        assert result.output.startswith("begun\n")
        assert await output_of(environment, "echo $x") == "before\n"
        assert await output_of(environment, "pwd") != "/\n"

    async def test_a_timeout_ends_those_that_ignore_it_and_those_that_fork_away(
        self,
        environment: Environment,
    ) -> None:
        name = f"/tmp/pids-{secrets.token_hex(6)}"
        stubborn = f"trap '' TERM HUP INT; echo $BASHPID >> {name}; while :; do sleep 1; done"
        result = await environment.run(
            f'( setsid bash -c "{stubborn.replace("$", chr(92) + "$")}" & )\n'
            f"until [ -s {name} ]; do sleep 0.01; done\n{stubborn}",
            timeout=1.5,
        )
        assert result.timed_out
        pids = (await output_of(environment, f"cat {name}; rm -f {name}")).split()
        assert len(pids) == 2
        for pid in pids:
            await until_gone(environment, pid)

    async def test_cancelling_ends_the_tree_at_once(self, environment: Environment) -> None:
        name = f"/tmp/pid-{secrets.token_hex(6)}"
        pid, cancelled_at = "", 0.0
        async with anyio.create_task_group() as group:
            group.start_soon(environment.run, f"trap '' TERM; echo $$ > {name}; sleep 60; sleep 60")
            pid = await until_file(environment, name)
            cancelled_at = time.monotonic()
            group.cancel_scope.cancel()
        assert time.monotonic() - cancelled_at < 5
        await until_gone(environment, pid)
        await output_of(environment, f"rm -f {name}")

    async def test_a_child_left_behind_does_not_hold_the_command(
        self, environment: Environment
    ) -> None:
        started = time.monotonic()
        pid = (await output_of(environment, "sleep 30 & echo $!")).strip()
        assert time.monotonic() - started < 5
        assert await is_running(environment, pid)
        await environment.run(f"kill {pid}")

    async def test_a_child_left_behind_may_go_on_printing(self, environment: Environment) -> None:
        name = f"/tmp/went-on-{secrets.token_hex(6)}"
        await output_of(
            environment, f"(sleep 0.2; echo late; sleep 0.1; echo later; echo yes > {name}) &"
        )
        assert await until_file(environment, name) == "yes"
        await output_of(environment, f"rm -f {name}")

    async def test_stdin_is_what_was_given(self, environment: Environment) -> None:
        data = bytes(range(256)) * 1000
        result = await environment.run("cat > given; echo rest; cat", stdin=data)
        assert result.output == "rest\n"
        assert await environment.read("given") == data

    async def test_without_stdin_nothing_waits_for_a_person(self, environment: Environment) -> None:
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            result = await environment.run("read -r answer; echo got $?; cat; echo end")
        assert result.output == "got 1\nend\n"

    async def test_a_program_that_wants_a_terminal_gets_none(
        self, environment: Environment
    ) -> None:
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            assert (
                await environment.run("[ -t 0 ] || [ -t 1 ] || exec 3< /dev/tty")
            ).exit_code != 0

    async def test_binary_output_breaks_nothing(self, environment: Environment) -> None:
        result = await environment.run(r"printf 'a\xff\xfe\x00b\xc3\xa9'")
        assert result.output == "a\ufffd\ufffd\x00bé"

    async def test_much_output_keeps_head_and_tail(self, environment: Environment) -> None:
        result = await environment.run(
            "echo first; head -c 20000000 /dev/zero | tr '\\0' x; echo; echo last", timeout=60
        )
        assert result.exit_code == 0
        assert result.output.startswith("first\nxxx")
        assert result.output.endswith("xxx\nlast\n")
        assert len(result.output) < 300_000
        assert result.dropped_bytes > 19_000_000
        assert f"{result.dropped_bytes:,}" in result.output

    async def test_a_deleted_working_folder_is_left_and_said(
        self, environment: Environment
    ) -> None:
        await output_of(environment, "mkdir -p parent/child; cd parent/child; rm -rf ../child")
        result = await environment.run("pwd")
        assert "is gone" in result.output
        assert result.output.rstrip().endswith("/parent")
        assert "is gone" not in (await environment.run("pwd")).output

    async def test_a_folder_given_is_for_that_command_alone(self, environment: Environment) -> None:
        before = await output_of(environment, "mkdir -p given; pwd")
        assert (await environment.run("pwd", cwd="given")).output == before.rstrip() + "/given\n"
        assert (await environment.run("cd /; pwd", cwd="/tmp")).output == "/\n"
        assert await output_of(environment, "pwd") == before

    async def test_a_folder_that_is_not_there_runs_nothing(self, environment: Environment) -> None:
        result = await environment.run("echo ran", cwd="/no/such/folder")
        assert result.exit_code != 0
        assert "/no/such/folder" in result.output
        assert "ran\n" not in result.output

    async def test_a_very_long_command_runs(self, environment: Environment) -> None:
        assert await output_of(environment, f"x='{'a' * 300_000}'; echo ${{#x}}") == "300000\n"
        assert await output_of(environment, "echo ${#x}; unset x") == "300000\n"

    async def test_a_command_that_no_program_can_be_given_is_refused(
        self, environment: Environment
    ) -> None:
        for bad in ("echo \0", "echo \ud800", "echo \ud800" + "x" * 200_000):
            with pytest.raises(ToolError):
                await environment.run(bad)

    async def test_a_command_sees_nothing_of_ours(self, environment: Environment) -> None:
        names = [
            line.partition("=")[0] for line in (await output_of(environment, "env")).splitlines()
        ]
        assert not [name for name in names if name.startswith("HERMES_") and name != "HERMES_TREE"]
        assert not [name for name in names if name.endswith(("_API_KEY", "_TOKEN"))]

    async def test_pkill_does_not_hit_the_shell_that_runs_it(
        self, environment: Environment
    ) -> None:
        word = f"unique-{secrets.token_hex(6)}"
        result = await environment.run(f"grep -qz {word} /proc/$$/cmdline; echo $?")
        assert result.output == "1\n"

    async def test_files_come_back_as_they_were_written(self, environment: Environment) -> None:
        data = bytes(range(256)) * 4000
        await environment.write("new/folders/file.bin", data)
        assert await environment.read("new/folders/file.bin") == data
        assert await environment.read("new/folders/file.bin", offset=10, limit=5) == data[10:15]
        assert await environment.read("new/folders/file.bin", offset=len(data) - 2) == data[-2:]
        assert await environment.read("new/folders/file.bin", offset=len(data) + 5) == b""
        await environment.write("new/folders/file.bin", b"")
        assert await environment.read("new/folders/file.bin") == b""

    async def test_files_are_those_that_commands_see(self, environment: Environment) -> None:
        await output_of(environment, "mkdir -p sub; cd sub; printf old > file")
        assert await environment.read("file") == b"old"
        await environment.write("file", b"new")
        assert await output_of(environment, "cat file; cd ..") == "new"
        assert await environment.read("sub/file") == b"new"

    async def test_odd_names_are_names(self, environment: Environment) -> None:
        for name in (
            "two\nlines",
            "-rf",
            " spaced ",
            "quo'te\"d",
            "$(touch hit)",
            "ünï",
            "a;b",
            "*",
        ):
            await environment.write(f"odd/{name}", name.encode())
            assert await environment.read(f"odd/{name}") == name.encode()
        assert await output_of(environment, "cd odd; find . -type f | grep -c .; cd ..") == "9\n"
        result = await environment.run("pwd; echo here", cwd="odd")
        assert result.exit_code == 0

    async def test_a_working_folder_may_have_an_odd_name(self, environment: Environment) -> None:
        await output_of(environment, "mkdir -p $'odd\\nname '; cd $'odd\\nname '; echo x > file")
        assert (await output_of(environment, "cat file")) == "x\n"
        assert await environment.read("file") == b"x\n"

    async def test_what_cannot_be_read_is_told(self, environment: Environment) -> None:
        await output_of(environment, "mkdir -p folder; mkfifo pipe")
        for path in ("missing", "folder", "pipe", "", "nul\0byte"):
            with pytest.raises(ToolError):
                await environment.read(path)

    async def test_what_cannot_be_written_is_told(self, environment: Environment) -> None:
        await output_of(environment, "mkdir -p folder; echo x > file")
        for path in ("folder", "file/below", "", "nul\0byte"):
            with pytest.raises(ToolError):
                await environment.write(path, b"x")
        assert await environment.read("file") == b"x\n"

    async def test_writing_keeps_the_mode_and_follows_links(self, environment: Environment) -> None:
        await output_of(environment, "echo old > target; chmod 751 target; ln -sf target link")
        await environment.write("link", b"new")
        assert (
            await output_of(environment, "stat -c %a target; cat target; readlink link")
            == "751\nnewtarget\n"
        )

    async def test_two_writers_of_one_file_leave_one_of_both(
        self, environment: Environment
    ) -> None:
        texts = [bytes([letter]) * 500_000 for letter in b"ab"]
        await environment.write("fought-over", texts[0])
        async with anyio.create_task_group() as group:
            for text in texts * 4:
                group.start_soon(environment.write, "fought-over", text)
            for _ in range(4):
                assert await environment.read("fought-over") in texts
        assert await environment.read("fought-over") in texts
        assert await output_of(environment, "ls -A | grep -c hermes || true") == "0\n"

    @pytest.fixture
    async def starter(self, environment: Environment) -> AsyncIterator[StartsProcesses]:
        if not isinstance(environment, StartsProcesses):
            pytest.skip(f"{environment.name} starts no background processes")
        yield environment

    async def test_a_process_runs_talks_and_ends(self, starter: StartsProcesses) -> None:
        process = await starter.start("echo ready; read -r x; echo got $x >&2; exit 7")
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            assert await process.output() == b"ready\n"
            await process.write(b"word\n")
            assert await all_output(process) == b"got word\n"
            assert await process.wait() == 7
        assert await process.output() == b""

    async def test_a_process_starts_from_the_session_and_leaves_it_alone(
        self, environment: Environment, starter: StartsProcesses
    ) -> None:
        await output_of(environment, "mkdir -p inner; cd inner; x=kept")
        process = await starter.start("echo $x ${PWD##*/}; x=lost; cd /")
        assert await all_output(process) == b"kept inner\n"
        assert await output_of(environment, "echo $x ${PWD##*/}") == "kept inner\n"
        other = await starter.start("pwd", cwd="/tmp")
        assert await all_output(other) == b"/tmp\n"

    async def test_killing_a_process_ends_its_tree(
        self, environment: Environment, starter: StartsProcesses
    ) -> None:
        process = await starter.start(
            "trap '' TERM; (setsid sleep 61 & echo $!); echo $$; sleep 62; sleep 63"
        )
        output = b""
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            while output.count(b"\n") < 2:
                output += await process.output()
            await process.kill()
        for pid in output.decode().split():
            await until_gone(environment, pid)
        assert await process.wait() not in (0, None)

    async def test_a_process_with_a_terminal_has_one(self, starter: StartsProcesses) -> None:
        process = await starter.start(
            "[ -t 0 ] && [ -t 1 ] && echo yes; read -r x; echo got $x", pty=True
        )
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            output = await process.output()
            assert b"yes" in output
            await process.write(b"word\n")
            assert b"got word" in await all_output(process)
            assert await process.wait() == 0

    async def test_a_process_is_found_again_by_its_handle(self, starter: StartsProcesses) -> None:
        process = await starter.start("echo before; read -r x; echo got $x")
        with anyio.fail_after(ANSWER_TIMEOUT_S):
            assert await process.output() == b"before\n"
            again = await starter.find(process.handle)
            assert again is not None
            assert await again.output() == b"before\n"
            await again.write(b"word\n")
            assert await again.output() == b"got word\n"
            await again.wait()
            await process.wait()
        assert await all_output(process) in (b"", b"got word\n")
        assert await starter.find("nonsense") is None
        assert await starter.find(process.handle) is None


async def output_of(environment: Environment, command: str) -> str:
    result = await environment.run(command, timeout=30)
    assert result.exit_code == 0, result
    return result.output


async def is_running(environment: Environment, pid: str) -> bool:
    seen = await environment.run(
        f"grep -q '^State:[[:space:]]*[RSDTtI]' /proc/{pid}/status 2>/dev/null"
    )
    return seen.exit_code == 0


async def until_gone(environment: Environment, pid: str) -> None:
    with anyio.fail_after(ANSWER_TIMEOUT_S):
        while True:
            if not await is_running(environment, pid):
                return
            await anyio.sleep(0.02)


async def until_file(environment: Environment, path: str) -> str:
    with anyio.fail_after(ANSWER_TIMEOUT_S):
        while True:
            found = await environment.run(f"cat {path} 2>/dev/null")
            if found.exit_code == 0 and found.output.strip():
                return found.output.strip()
            await anyio.sleep(0.02)


async def all_output(process: BackgroundProcess) -> bytes:
    output = b""
    with anyio.fail_after(ANSWER_TIMEOUT_S):
        while piece := await process.output():
            output += piece
    return output
