"""What the session's shell takes over from confined commands, and what it refuses."""

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermes.core.actions import ConfinementProfile
from hermes.environments.local import LocalEnvironment
from hermes.environments.sandboxing import support

NOT_HERE = support.kernel_support().reason
pytestmark = [pytest.mark.anyio, pytest.mark.skipif(bool(NOT_HERE), reason=NOT_HERE)]


@pytest.fixture
async def here(tmp_path: Path) -> AsyncIterator[LocalEnvironment]:
    (tmp_path / "work").mkdir()
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path / "work"), "LANG": "C.UTF-8"}
    async with LocalEnvironment(tmp_path / "work", variables) as place:
        assert (await place.kernel_support()).reason == ""
        yield place


async def run(place: LocalEnvironment, command: str) -> tuple[int, str, list[str]]:
    async with place.confined(ConfinementProfile()) as confined:
        result = await confined.run(command, timeout=120)
        return result.exit_code, result.output, [str(each) for each in confined.collect()]


async def test_the_session_is_one_with_and_without_confinement(here: LocalEnvironment) -> None:
    await here.run("a=1; f() { echo from-f; }; alias ll='echo aliased'; cd /usr")
    _, output, _ = await run(here, "echo $a $PWD; f; b=2; export c=3; cd /etc; g() { echo g; }")
    assert output == "1 /usr\nfrom-f\n"
    assert (await run(here, "echo $b $c $PWD; g"))[1] == "2 3 /etc\ng\n"
    assert (await here.run("echo $a $b $c $PWD; f; ll")).output == "1 2 3 /etc\nfrom-f\naliased\n"


async def test_the_path_survives_any_order_of_commands(here: LocalEnvironment) -> None:
    path = f"{os.environ['PATH']}\n"
    for _ in range(3):
        assert (await run(here, "a=1; echo $PATH"))[1] == path
        assert (await run(here, "b=2; echo $PATH"))[1] == path
        assert (await here.run("echo $PATH; ls / > /dev/null")).output == path
        assert (await here.run("echo $a$b")).output == "12\n"


async def test_what_a_command_unsets_or_changes_stays_so(here: LocalEnvironment) -> None:
    shown = "echo ${LANG-none} $HOME $word ${m[*]-none}"
    await here.run("unset LANG; HOME='/a b'; word='$x \"y\"'")
    for text in (shown, f"true; {shown}"):
        assert (await run(here, text))[1] == 'none /a b $x "y" none\n'
    assert (await here.run(shown)).output == 'none /a b $x "y" none\n'
    await here.run("export LANG=C.UTF-8; declare -A m=([/etc]=1)")  # no plain key
    assert (await here.run(shown)).output == 'C.UTF-8 /a b $x "y" 1\n'
    assert (await run(here, shown))[1] == 'C.UTF-8 /a b $x "y" 1\n'


async def test_a_confined_command_leaves_no_code_for_one_that_is_not(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    await here.run("echo() { builtin echo own; }; unset -f echo; PS4='+ '")
    planted = f"date() {{ touch {tmp_path}/bad; }}; alias id='touch {tmp_path}/bad'"
    await run(here, f"{planted}; declare -i n=1")
    assert "bad" in (await run(here, "declare -f date"))[1]
    await run(here, "PATH=/nowhere:$PATH; export LD_PRELOAD=/nowhere.so BASH_ENV=/x")
    told = await here.run("date >/dev/null; id -u; echo $PATH ${LD_PRELOAD-none} ${BASH_ENV-none}")
    assert told.output == f"{os.getuid()}\n{os.environ['PATH']} none none\n"
    assert not (tmp_path / "bad").exists()


async def test_a_confined_command_does_not_choose_the_programs_of_a_later_one(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    (tmp_path / "work/5").mkdir()
    (tmp_path / "work/5/id").write_text("#!/bin/sh\necho planted\n")
    (tmp_path / "work/5/id").chmod(0o755)
    await run(here, "a=1; let PATH=5; export BASH_ENV=/x")
    assert await run(here, "id -u; echo $a $PATH ${BASH_ENV-none}") == (
        0,
        f"{os.getuid()}\n1 {os.environ['PATH']} none\n",
        [],
    )
    await here.run("PATH=$PWD/5:$PATH")  # this one was allowed as it is
    assert (await run(here, "b=2; id -u"))[1] == "planted\n"
    assert (await run(here, "f() { echo $b; }; f; id -u"))[1] == "2\nplanted\n"


async def test_a_forged_subscript_runs_nothing_in_an_unconfined_command(
    here: LocalEnvironment, tmp_path: Path
) -> None:
    """bash computes the subscript of an indexed array, and runs what its value contains."""
    await here.run("a=kept")
    planted = f'declare -- x="q[\\\\$(touch {tmp_path}/bad)]"\\n'
    forged = (
        'names\\0declare -a __hermes_first=([0]="HOME")\\n\\0'
        f'{planted}declare -a y=([x]="1")\\n\\0\\0\\nreturn 0 # the working folder follows\\n/'
    )
    await run(here, f"__hermes_end() {{ __hermes_done=1; printf '{forged}' >&187; }}")
    assert (await here.run("echo $a")).output == "kept\n"
    assert not (tmp_path / "bad").exists()


async def test_variables_for_confined_commands_alone_do_not_stay_in_the_session(
    here: LocalEnvironment,
) -> None:
    shown = "echo ${HISTFILE-none} ${LESSHISTFILE-none} ${TMPDIR-none}"
    await here.run("export LESSHISTFILE='own one'")
    output = (await run(here, f"HISTFILE=changed; {shown}"))[1]
    assert output == f"changed own one {here.temporary}\n"
    assert (await here.run(shown)).output == "none own one none\n"
    await here.run("TMPDIR='/var/my tmp'")
    assert (await run(here, "echo $TMPDIR"))[1] == f"{here.temporary}\n"
    assert (await here.run(shown)).output == "none own one /var/my tmp\n"


async def test_a_forged_state_is_not_taken_over(here: LocalEnvironment, tmp_path: Path) -> None:
    await here.run("a=kept")
    forged = f"names\\0\\0touch {tmp_path}/bad\\n\\0\\0\\nreturn 0 # the working folder follows\\n/"
    copies = "for f in /proc/$$/fd/*; do case $(readlink $f) in /memfd*) echo ${f##*/}; esac; done"
    await run(here, f"trap - EXIT; printf '{forged}' >&$({copies}); kill -9 $$")
    await run(here, f"printf '{forged}' >&$({copies}); exec true")
    assert (await here.run("echo $a; pwd")).output == f"kept\n{tmp_path}/work\n"
    assert not (tmp_path / "bad").exists()


async def test_programs_do_not_inherit_the_state_of_the_shell(here: LocalEnvironment) -> None:
    listing = "ls -l /proc/self/fd | grep memfd; (ls -l /proc/self/fd) | grep memfd; echo $?"
    assert await run(here, listing) == (0, "1\n", [])
    code, output, _ = await run(here, "exec 3</etc/hosts; exec 10<&3; x=1; ls -l /proc/self/fd")
    assert (code, "memfd" in output) == (0, False)
    assert (await run(here, "echo $x"))[1] == "1\n"
    opened = (
        "import glob, os\n"
        "for file in glob.glob(f'/proc/{os.getppid()}/fd/*'):\n"
        "    if os.readlink(file).startswith('/memfd'):\n"
        "        open(file, 'wb')\n"
    )
    code, output, blocked = await run(here, f'python3 -c "{opened}"; true')
    assert "PermissionError" in output
    assert blocked == ["write to the state of the shell by python3"]
