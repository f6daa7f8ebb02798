"""The sudo rules of the service: one program of root, and the list of what that program runs.

The program is `environments.confinement.root_command`, copied to a folder that only root can
change, with the modules that it needs. See ADR 24.
"""

import compileall
import configparser
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from anyio import to_thread

from hermes.app.service.service_files import SERVICE_NAME, ServiceFile
from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.environments import confinement
from hermes.environments.confinement.messages import ROOT_LAUNCHER_FOLDER
from hermes.environments.confinement.root_command import (
    COMMANDS_FILE,
    SECRETS_FILE,
    VARIABLES,
    RootCommandList,
    RootCommandRefused,
    check_owner,
)
from hermes.environments.sandboxing.root_commands import LAUNCHER_FILE, SHIM_FOLDER
from hermes.policy.actions.unnamed_reads import secret_patterns
from hermes.skills.supervisors.commands import (
    HostSupervisors,
    UnsupportedActionError,
    split_commands,
)
from hermes.skills.supervisors.units import HostUnit, list_units, listing_scripts, parse_units

SUDOERS_FILE = Path(f"/etc/sudoers.d/{SERVICE_NAME}")
SUDOERS_MODE, PROGRAM_MODE = 0o440, 0o755
LISTING_TIMEOUT_S = 60.0
LISTED_ACTIONS = ("start", "restart", "reload")
QUERIES_AS_ROOT = ("status", "status UNIT", "pid UNIT")
"""Verbs of supervisorctl, whose socket is closed to other users."""
CONFINED_KINDS, UNCONFINED_KINDS = ("systemd", "supervisord"), ("openrc", "sysvinit")
"""Kinds whose program only asks a manager, and kinds whose program starts the daemon itself: a
confined one would pass its restrictions on to the daemon."""
SYSTEMD_SOCKETS = ("/run/systemd/private", "/run/dbus/system_bus_socket")
SUPERVISORD_SETTINGS = ("/etc/supervisor/supervisord.conf", "/etc/supervisord.conf")
READABLE_FOLDERS = ("/var/log",)
_OWN_OR_SYSTEM_UNIT = re.compile(
    rf"(?:{SERVICE_NAME}|systemd-.*|dbus.*|(?:serial-|console-|container-)?getty.*|user@.*|polkit.*"
    r"|user-runtime-dir@.*|ssh|sshd|init\.scope)(?:\.service)?"
)
_USER_NAME = re.compile(r"[a-z_][a-z0-9_-]*\$?")


def sudoers_file(user: str) -> ServiceFile:
    """Raises `SettingsError` for a name that means something else in a sudoers file."""
    if not _USER_NAME.fullmatch(user):
        raise SettingsError(f"sudo rules cannot be made for the user {user!r}")
    text = f"""\
# Made by `hermes service install --sudo`; `hermes service uninstall` removes it.
# This program runs only what {COMMANDS_FILE} lists, and confines it.
Defaults!{LAUNCHER_FILE} env_reset, !setenv, !requiretty, closefrom=3
{user} ALL=(root) NOPASSWD: NOSETENV: {LAUNCHER_FILE}
"""
    return ServiceFile(SUDOERS_FILE, text, SUDOERS_MODE)


def commands_file() -> ServiceFile:
    """The commands for the services that this host has now."""
    units = _find_units()
    lines = list(dict.fromkeys([*_confined_lines(units), *_unconfined_lines(units)]))
    text = """\
# What the user of the service may run as root, by `sudo`. Edit it: Hermes reads it and cannot
# change it. Only root may be able to write it. An installation that is repeated leaves it alone.
#
#   PROGRAM WORD...              exactly this command, confined: it changes no file, and connects
#                                only to the sockets below
#   unconfined PROGRAM WORD...   exactly this command, with all rights of root
#   socket PATH                  a unix socket of a service manager
#   read FOLDER                  cat, du, grep, head, ls, stat, tail and wc may read what is below
#                                this folder, but no file that looks like a secret

"""
    lines += ["", *(f"read {folder}" for folder in READABLE_FOLDERS)]
    return ServiceFile(Path(COMMANDS_FILE), text + "".join(f"{line}\n" for line in lines))


def lists_commands(file: ServiceFile) -> bool:
    listed = RootCommandList.parse(file.text)
    return bool(listed.confined or listed.unconfined)


def _find_units() -> Sequence[HostUnit]:
    async def run(script: str) -> str:
        with suppress(subprocess.TimeoutExpired):
            return (await to_thread.run_sync(_run, "bash", "-c", script)).stdout
        return ""

    async def find() -> Sequence[HostUnit]:
        units = (await list_units(run)).units
        return units or parse_units([await run(listing_scripts()["systemd"])]).units

    return [each for each in anyio.run(find) if not _OWN_OR_SYSTEM_UNIT.fullmatch(each.name)]


def _confined_lines(units: Sequence[HostUnit]) -> Iterator[str]:
    kinds = {each.kind for each in units}
    if "systemd" in kinds:
        yield from (f"socket {path}" for path in SYSTEMD_SOCKETS)
    if "supervisord" in kinds:
        places = [each.place for each in units if each.kind == "supervisord" and each.place]
        yield from (f"socket {path}" for path in _supervisord_sockets(places))
    yield from _lines_of(units, CONFINED_KINDS)


def _unconfined_lines(units: Sequence[HostUnit]) -> Iterator[str]:
    yield from (f"unconfined {line}" for line in _lines_of(units, UNCONFINED_KINDS))


def _lines_of(units: Sequence[HostUnit], kinds: Sequence[str]) -> Iterator[str]:
    supervisors = HostSupervisors(units)
    for unit in units:
        if unit.kind not in kinds:
            continue
        commands = []
        for action in LISTED_ACTIONS:
            with suppress(UnsupportedActionError):
                commands += split_commands(supervisors.render(action, unit.name))
        if unit.kind == "supervisord":
            program = f"supervisorctl -c {unit.place}" if unit.place else "supervisorctl"
            name = unit.full_name or unit.name
            commands += [f"{program} {verb.replace('UNIT', name)}" for verb in QUERIES_AS_ROOT]
        if unit.kind == "systemd":  # playbooks use both names
            commands += [each.removesuffix(".service") for each in commands]
        for each in commands:
            program, _, words = each.partition(" ")
            if found := shutil.which(program, path=VARIABLES["PATH"]):
                yield f"{found} {words}"


def _supervisord_sockets(places: Sequence[str]) -> Iterator[str]:
    for name in (*places, *SUPERVISORD_SETTINGS):
        settings = configparser.RawConfigParser(inline_comment_prefixes=(";",), strict=False)
        with suppress(configparser.Error, UnicodeDecodeError):
            settings.read(name)
        path = settings.get("unix_http_server", "file", fallback="")
        if path.startswith("/"):
            yield path


def check_sudo() -> None:
    """Raises `SettingsError` when the rules could not work, or not be safe."""
    for program in ("sudo", "visudo"):
        if shutil.which(program, path=VARIABLES["PATH"]) is None:
            raise SettingsError(
                f"{program} is not installed: apt install sudo, or leave out --sudo"
            )
    if not SUDOERS_FILE.parent.is_dir():
        raise SettingsError(f"{SUDOERS_FILE.parent} is missing: sudo here reads no such folder")
    try:
        check_owner(str(_interpreter()))
        check_owner(str(Path(ROOT_LAUNCHER_FOLDER).parent))
    except RootCommandRefused as error:
        raise SettingsError(f"sudo rules would not be safe: {error}") from error


def install_launcher() -> None:
    """Copies the program of root and what it needs. The copy is replaced when it is repeated."""
    top = Path(ROOT_LAUNCHER_FOLDER)
    modules = top / "python"
    shutil.rmtree(top, ignore_errors=True)
    package = modules.joinpath(*confinement.__name__.split("."))
    package.mkdir(mode=0o755, parents=True)
    for folder in package.parents[: len(package.relative_to(modules).parts) - 1]:
        (folder / "__init__.py").touch()
    for source in Path(confinement.__file__).parent.glob("*.py"):
        shutil.copyfile(source, package / source.name)
    compileall.compile_dir(modules, quiet=1)
    Path(SECRETS_FILE).write_text("".join(f"{each}\n" for each in secret_patterns()))
    _write_program(
        Path(LAUNCHER_FILE),
        f"#!{_interpreter()} -IS\n# Made by `hermes service install --sudo`.\nimport sys\n\n"
        f"sys.path.insert(0, {str(modules)!r})\n"
        f"from {confinement.__name__}.root_command import main\n\nmain()\n",
    )
    sudo = shutil.which("sudo", path=VARIABLES["PATH"])
    _write_program(
        Path(SHIM_FOLDER, "sudo"),
        "#!/bin/sh\n# Made by `hermes service install --sudo`: the commands of Hermes find it "
        'first.\n[ "$1" != -n ] || shift\n'
        f'exec {sudo} -n -- {LAUNCHER_FILE} "$@"\n',
    )
    for each in (top, *top.rglob("*")):
        program = each.is_dir() or each.name in ("sudo", Path(LAUNCHER_FILE).name)
        each.chmod(PROGRAM_MODE if program else 0o644)


def _write_program(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.write_text(text)


def _interpreter() -> Path:
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def check_sudoers_text(file: ServiceFile, folder: Path) -> None:
    """Raises `SettingsError` for what visudo does not accept. `folder` is for a temporary file."""
    candidate = folder / "sudoers"
    candidate.write_text(file.text)
    candidate.chmod(file.mode)
    done = _run("visudo", "-c", "-f", str(candidate))
    if done.returncode:
        raise SettingsError(f"visudo does not accept the rules: {done.stdout}{done.stderr}".strip())


def check_rule_in_force(user: str) -> None:
    """Raises `EnvironmentFailed` when sudo does not apply the rule, for instance because
    /etc/sudoers does not include the folder."""
    done = _run("sudo", "-n", "-l", "-U", user, LAUNCHER_FILE)
    if done.returncode or LAUNCHER_FILE not in done.stdout:
        raise EnvironmentFailed(
            f"sudo does not apply {SUDOERS_FILE}: does /etc/sudoers include "
            f"{SUDOERS_FILE.parent}? It says: {(done.stdout + done.stderr).strip()}"
        )


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(  # noqa: TID251 - our own installation, not an environment
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        timeout=LISTING_TIMEOUT_S,
        env=VARIABLES,
    )
