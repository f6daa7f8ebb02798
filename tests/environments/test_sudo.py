"""sudo gets its password, and nothing else does: a real sudo, a real account, a real machine."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import real_ssh
from sudo_account import RIGHT, RULES, USER, hashed, run_as

from hermes.environments.ssh import open_ssh
from hermes.environments.sudo import open_password_agent

if sys.platform != "linux" or os.geteuid() != 0:
    pytest.skip("a throwaway account needs Linux and root", allow_module_level=True)
if shutil.which("sudo") is None:
    pytest.skip("sudo is not installed; `make system` installs it", allow_module_level=True)


def test_sudo_works_wherever_it_stands_in_a_command() -> None:
    script = "printf '#!/bin/sh\\nsudo id -un\\n' > s.sh; sh s.sh"
    commands = {
        "sudo id -un": "root\n",
        "echo data | sudo tee /dev/null | cat": "data\n",
        "sudo cat <<< 'from here'": "from here\n",
        "sudo -u nobody id -un": "nobody\n",
        "sudo --user=nobody -- id -un": "nobody\n",
        "echo a b | xargs -n1 sudo echo": "a\nb\n",
        "(sudo id -un); echo $(sudo id -un)": "root\nroot\n",
        "env sudo id -un": "root\n",
        script: "root\n",
        "for i in 1 2 3; do sudo echo same & done; wait": "same\n" * 3,
    }
    *results, end = run_as(RIGHT, *({"run": command} for command in commands))
    assert [(one["code"], one["output"]) for one in results] == [
        (0, output) for output in commands.values()
    ]
    assert end == {"left": []}


def test_background_processes_get_it_too_with_and_without_a_terminal() -> None:
    plain, pty, _ = run_as(RIGHT, {"start": "sudo id -un"}, {"start": "sudo id -un", "pty": True})
    assert (plain["code"], plain["output"]) == (0, "root\n")
    assert (pty["code"], pty["output"].strip()) == (0, "root")


def test_the_password_is_nowhere_to_be_found() -> None:
    """Not in an environment, an argument, a file, or the answer to anyone but sudo."""
    look = (
        "sudo true; env; set; cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null; "
        "ls -laR $(dirname $SUDO_ASKPASS); cat $SUDO_ASKPASS $(type -P sudo); "
        "$SUDO_ASKPASS; bash -c '$SUDO_ASKPASS; true'; "
        "desk=$(dirname $SUDO_ASKPASS); "
        "grep -ar Tr0ub[4]dor ~ ../ $desk/askpass /tmp/hermes-shell-* 2>/dev/null"
    )
    result, _ = run_as(RIGHT, {"run": look})
    assert "Tr0ub4dor" not in result["output"]
    assert result["output"].count("hermes: only sudo is told") == 2


def test_a_wrong_password_is_tried_once_and_never_again() -> None:
    first, second, many, _ = run_as(
        "wrong",
        {"run": "sudo id -un"},
        {"run": "sudo id -un"},
        {"run": "for i in 1 2 3 4 5; do sudo true; done"},
    )
    assert first["code"] == second["code"] == 1
    assert "1 incorrect password attempt" in first["output"]
    assert "sudo does not accept SUDO_PASSWORD" in first["output"]
    assert "incorrect password" not in second["output"] + many["output"]
    assert "Set the right one in ~/.hermes/.env" in second["output"]


def test_options_that_want_it_otherwise_are_left_alone() -> None:
    typed, never, version, _ = run_as(
        RIGHT,
        {"run": "echo nonsense | sudo -u root -S true"},
        {"run": "sudo -n true"},
        {"run": "sudo -V | head -1"},
    )
    assert "Sorry, try again" in typed["output"]
    assert (never["code"], "a password is required" in never["output"]) == (1, True)
    assert version["output"].startswith("Sudo version")


def test_without_a_password_nothing_is_prepared() -> None:
    result, _ = run_as("", {"run": "sudo id -un; echo $SUDO_ASKPASS; type -a sudo | head -1"})
    assert "a password is required" in result["output"]
    assert "hermes-sudo" not in result["output"]


@pytest.mark.parametrize("password", ["", "two\nlines", "nul\0"])
def test_what_is_no_line_is_no_password(password: str) -> None:
    assert open_password_agent(password) is None


@pytest.mark.anyio
async def test_the_same_holds_on_another_machine(tmp_path: Path) -> None:
    with _sudoer_there():
        given = replace(real_ssh.opening(tmp_path), secrets={"SUDO_PASSWORD": RIGHT})
        async with open_ssh(given) as place:
            piped = await place.run("echo data | sudo tee /dev/null; sudo id -un")
            assert (piped.exit_code, piped.output) == (0, "data\nroot\n")
            seen = await place.run("sudo true; env; cat /proc/[0-9]*/environ 2>/dev/null")
            assert "Tr0ub4dor" not in seen.output
        left = real_ssh.machine().inside("sh", "-c", "ls -d /tmp/.hermes-sudo-*").stdout
    assert left == ""
    assert not any("sudo" in line for line in real_ssh.machine().processes())


@contextmanager
def _sudoer_there() -> Iterator[None]:
    """The account of that machine has no password, and no leave, until now."""
    machine = real_ssh.machine()
    shadow, rules = machine.folder / "etc/shadow", machine.folder / "sudoers"
    before, name = shadow.read_text(), real_ssh.USER
    shadow.write_text(before.replace(f"{name}:*:", f"{name}:{hashed(RIGHT)}:"))
    rules.write_text(RULES.replace(USER, name))
    rules.chmod(0o440)
    machine.inside("mount", "--bind", "/mnt/sudoers", "/etc/sudoers")
    try:
        yield
    finally:
        machine.inside("umount", "/etc/sudoers")
        shadow.write_text(before)
