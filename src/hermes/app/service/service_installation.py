"""Installs, removes and inspects the service `hermes` on this host.

What an installation made is recorded in a file of its own, so that it can be repeated, and so that
`uninstall` removes exactly that.
"""

import hashlib
import os
import pwd
import shutil
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from hermes.app.service.service_files import (
    LOG_FILE,
    LOG_FOLDER,
    SERVICE_NAME,
    ServiceFile,
    ServiceKind,
    ServicePlan,
    service_file,
)
from hermes.app.service.sudo_rules import (
    check_rule_in_force,
    check_sudo,
    check_sudoers_text,
    commands_file,
    install_launcher,
    lists_commands,
    sudoers_file,
)
from hermes.core.errors import EnvironmentFailed, HermesError, SettingsError
from hermes.core.messages import Value
from hermes.environments.confinement.messages import ROOT_LAUNCHER_FOLDER
from hermes.environments.confinement.root_command import COMMANDS_FILE
from hermes.plumbing.files import PUBLIC_MODE, is_locked, write_atomically

RECORD_FILE = Path("/etc/hermes/service.json")
PRIVATE_FOLDER_MODE, LOG_FOLDER_MODE = 0o700, 0o750
COMMAND_TIMEOUT_S = 200.0
READING_GROUPS = ("adm", "systemd-journal")
"""Groups whose members may read logs, where they exist."""
COPIED_SETTINGS = ("config.yaml", ".env", "probes.yaml", "policies")
ENABLE_COMMANDS: dict[ServiceKind, tuple[tuple[str, ...], ...]] = {
    "systemd": (("systemctl", "daemon-reload"), ("systemctl", "enable", SERVICE_NAME)),
    "supervisord": (),
    "openrc": (("rc-update", "add", SERVICE_NAME, "default"),),
}
START_COMMANDS: dict[ServiceKind, tuple[tuple[str, ...], ...]] = {
    "systemd": (("systemctl", "restart", SERVICE_NAME),),
    "supervisord": (
        ("supervisorctl", "reread"),
        ("supervisorctl", "update", SERVICE_NAME),
        ("supervisorctl", "restart", SERVICE_NAME),
    ),
    "openrc": (("rc-service", SERVICE_NAME, "restart"),),
}
STOP_COMMANDS: dict[ServiceKind, tuple[tuple[str, ...], ...]] = {
    "systemd": (("systemctl", "disable", "--now", SERVICE_NAME),),
    "supervisord": (("supervisorctl", "stop", SERVICE_NAME),),
    "openrc": (
        ("rc-service", "--ifstarted", SERVICE_NAME, "stop"),
        ("rc-update", "delete", SERVICE_NAME, "default"),
    ),
}
FORGET_COMMANDS: dict[ServiceKind, tuple[tuple[str, ...], ...]] = {
    "systemd": (("systemctl", "daemon-reload"),),
    "supervisord": (("supervisorctl", "reread"), ("supervisorctl", "update", SERVICE_NAME)),
    "openrc": (),
}
STATE_COMMANDS: dict[ServiceKind, tuple[str, ...]] = {
    "systemd": ("systemctl", "is-active", SERVICE_NAME),
    "supervisord": ("supervisorctl", "status", SERVICE_NAME),
    "openrc": ("rc-service", SERVICE_NAME, "status"),
}


class InstalledService(Value, kw_only=True, frozen=True):
    """What an installation made: the content of `RECORD_FILE`."""

    plan: ServicePlan
    digests: dict[str, str] = {}
    """Each file, with the SHA-256 of what was written."""
    folders: tuple[str, ...] = ()
    """Folders that were made, besides the home."""
    made_user: bool = False
    made_home: bool = False


class ServiceState(Value, kw_only=True, frozen=True):
    installed: bool = False
    running: bool = False
    watching: bool = False
    """A watch of the home holds its lock."""
    kind: str = ""
    user: str = ""
    home: str = ""
    manager: str = ""
    """What the service manager says."""
    changed: tuple[str, ...] = ()
    """Files that were edited or removed since."""


def detect_kind() -> ServiceKind:
    """The service manager that runs here. Raises `EnvironmentFailed` when there is none."""
    if Path("/run/systemd/system").is_dir():
        return "systemd"
    if Path("/run/openrc").is_dir() and shutil.which("rc-service"):
        return "openrc"
    if shutil.which("supervisorctl") and Path("/etc/supervisor").is_dir():
        return "supervisord"
    raise EnvironmentFailed(
        "neither systemd, OpenRC nor supervisord runs here; name one with --kind, or print its "
        "file with --kind NAME --print"
    )


def find_program() -> str:
    """The path of the command `hermes` that runs now. Raises `SettingsError`."""
    beside = Path(sys.executable).with_name("hermes")
    found = str(beside) if beside.exists() else shutil.which("hermes")
    if not found:
        raise SettingsError("the command `hermes` is not installed: see `hermes doctor`")
    return os.path.abspath(found)  # noqa: PTH100 - a link of pipx stays a link


def read_record() -> InstalledService | None:
    try:
        return msgspec.json.decode(RECORD_FILE.read_bytes(), type=InstalledService)
    except FileNotFoundError:
        return None
    except (OSError, msgspec.DecodeError) as error:
        raise SettingsError(f"{RECORD_FILE} cannot be read: {error}") from error


def install_service(
    plan: ServicePlan, settings_home: Path, *, mode: str = "", start: bool = True
) -> Iterator[str]:
    """Yields a line for each step that changed something. Can be repeated."""
    require_root()
    _check_readable(plan)
    before = read_record()
    if before is not None and before.plan.kind != plan.kind:
        raise SettingsError(
            f"it is installed for {before.plan.kind}: first run `hermes service uninstall`"
        )
    files = [service_file(plan), *(_sudo_files(plan, before) if plan.sudo else ())]
    _check_foreign_files(files, before)
    known = before.digests if before else {}
    made_user = _make_user(plan)
    home = Path(plan.home)
    made_home = not home.exists()
    if made_user:
        yield f"user {plan.user}"
    if made_home:
        yield f"folder {plan.home}"
    _make_folder(home, plan.user, PRIVATE_FOLDER_MODE)
    made = (LOG_FOLDER, *((Path(ROOT_LAUNCHER_FOLDER),) if plan.sudo else ()))
    folders = [str(each) for each in made if not each.exists()]
    _make_folder(LOG_FOLDER, plan.user, LOG_FOLDER_MODE)
    record = InstalledService(
        plan=plan,
        digests={str(each.path): _digest(each.text.encode()) for each in files}
        | {name: each for name, each in known.items() if name == COMMANDS_FILE},
        folders=tuple(dict.fromkeys([*(before.folders if before else ()), *folders])),
        made_user=made_user or bool(before and before.made_user),
        made_home=made_home or bool(before and before.made_home),
    )
    # Before the files: an installation that is interrupted can be removed.
    RECORD_FILE.parent.mkdir(mode=0o755, exist_ok=True)
    write_atomically(RECORD_FILE, msgspec.json.encode(record), mode=PUBLIC_MODE)
    yield from _copy_settings(plan, settings_home, mode)
    yield from _write_files(plan, files)
    if not start:
        return
    for command in (*ENABLE_COMMANDS[plan.kind], *START_COMMANDS[plan.kind]):
        _run_required(command)
    yield f"started by {plan.kind}"


def _write_files(plan: ServicePlan, files: Sequence[ServiceFile]) -> Iterator[str]:
    if plan.sudo:
        install_launcher()
    for each in files:
        if _write_file(each):
            yield _describe_written(each)
    if plan.sudo:
        check_rule_in_force(plan.user)


def _sudo_files(plan: ServicePlan, before: InstalledService | None) -> list[ServiceFile]:
    """The list of commands, which stays as people edited it, and the rule. Raises
    `SettingsError`."""
    check_sudo()
    Path(COMMANDS_FILE).parent.mkdir(mode=0o755, exist_ok=True)
    rule = sudoers_file(plan.user)
    with tempfile.TemporaryDirectory() as folder:
        check_sudoers_text(rule, Path(folder))
    listed = Path(COMMANDS_FILE)
    if before is not None and COMMANDS_FILE in before.digests and listed.exists():
        return [ServiceFile(listed, listed.read_text()), rule]
    return [commands_file(), rule]


def _describe_written(file: ServiceFile) -> str:
    if str(file.path) == COMMANDS_FILE and not lists_commands(file):
        return f"file {file.path} (no service was found that can be restarted: add lines)"
    return f"file {file.path}"


def uninstall_service(*, remove_home: bool = False) -> Iterator[str]:
    """Removes what the installation made. The home stays unless asked. Raises `HermesError`."""
    require_root()
    record = read_record()
    if record is None:
        raise HermesError("the service is not installed")
    plan = record.plan
    for command in STOP_COMMANDS[plan.kind]:
        _run(command)
    yield from _remove_files(record)
    for command in FORGET_COMMANDS[plan.kind]:
        _run(command)
    for name in record.folders:
        shutil.rmtree(name, ignore_errors=True)
        yield f"folder {name}"
    if remove_home and record.made_home:
        shutil.rmtree(plan.home)
        yield f"folder {plan.home}"
    if record.made_user and (remove_home or not Path(plan.home).exists()):
        _run(("userdel", plan.user))
        yield f"user {plan.user}"
    elif record.made_user:
        yield f"kept: the user {plan.user}, who owns {plan.home}"
    RECORD_FILE.unlink()
    with suppress(OSError):  # other files are in it
        RECORD_FILE.parent.rmdir()


def _remove_files(record: InstalledService) -> Iterator[str]:
    for name, digest in reversed(record.digests.items()):  # the sudo rule first
        path = Path(name)
        if path.is_file() and _is_changed(name, digest):
            kept = path.with_name(f"{path.name}.edited")
            path.rename(kept)
            kept.chmod(0o644)  # OpenRC would take an executable file for another service
            yield f"file {path} (it was edited: kept as {kept})"
        elif path.exists():
            path.unlink()
            yield f"file {path}"


def service_state() -> ServiceState:
    record = read_record()
    if record is None:
        return ServiceState()
    plan = record.plan
    code, said = _run(STATE_COMMANDS[plan.kind])
    running = code == 0 and (plan.kind != "supervisord" or " RUNNING " in f"{said} ")
    return ServiceState(
        installed=True,
        running=running,
        watching=is_locked(Path(plan.home) / "locks" / "watch.lock"),
        kind=plan.kind,
        user=plan.user,
        home=plan.home,
        manager=" ".join(said.split()),
        changed=tuple(name for name, digest in record.digests.items() if _is_changed(name, digest)),
    )


def log_command(*, lines: int, follow: bool) -> tuple[str, ...]:
    """The command that prints the log. Raises `HermesError` when nothing is installed."""
    record = read_record()
    if record is None:
        raise HermesError("the service is not installed: hermes service install")
    if record.plan.kind == "systemd":
        command = ("journalctl", "--no-pager", "-u", SERVICE_NAME, "-n", str(lines))
        return (*command, "-f") if follow else command
    return ("tail", "-n", str(lines), *(("-F",) if follow else ()), str(LOG_FILE))


def require_root() -> None:
    if os.geteuid() != 0:
        raise EnvironmentFailed(
            "only root can install a service: use sudo, or print the text to paste with --print"
        )


def _check_readable(plan: ServicePlan) -> None:
    """The user of the service must reach the program: a root's own folder is closed to others."""
    if plan.user == "root":
        return
    for name in (plan.program, sys.prefix, sys.base_prefix, __file__):
        real = Path(name).resolve()
        for folder in (*Path(name).parents, *real.parents):
            if not folder.stat().st_mode & stat.S_IXOTH:
                raise SettingsError(
                    f"the user {plan.user} cannot run {plan.program}: {folder} is closed to other "
                    "users. Install Hermes for all users (PIPX_HOME=/opt/pipx "
                    "PIPX_BIN_DIR=/usr/local/bin pipx install ...), or use --user root"
                )


def _check_foreign_files(files: Sequence[ServiceFile], before: InstalledService | None) -> None:
    known = before.digests if before else {}
    for each in files:
        if not each.path.parent.is_dir():
            raise EnvironmentFailed(f"{each.path.parent} is missing: is the manager installed?")
        if str(each.path) not in known and os.path.lexists(each.path):
            raise SettingsError(f"{each.path} exists and is not ours; move it away first")


def _make_user(plan: ServicePlan) -> bool:
    try:
        pwd.getpwnam(plan.user)
        return False
    except KeyError:
        pass
    shell = shutil.which("nologin", path="/usr/sbin:/sbin") or "/bin/false"
    words = ("useradd", "--system", "--user-group", "--no-create-home")
    _run_required((*words, "--home-dir", plan.home, "--shell", shell, plan.user))
    for group in READING_GROUPS:
        _run(("usermod", "-a", "-G", group, plan.user))
    return True


def _make_folder(path: Path, user: str, mode: int) -> None:
    owner = pwd.getpwnam(user)
    if path.exists():
        if path.stat().st_uid != owner.pw_uid:
            raise SettingsError(f"{path} exists and does not belong to {user}: chown it, or remove")
        return
    path.mkdir(mode=mode, parents=True)
    path.chmod(mode)
    os.chown(path, owner.pw_uid, owner.pw_gid)


def _copy_settings(plan: ServicePlan, source: Path, mode: str) -> Iterator[str]:
    """Settings of the person who installs it, once: later ones are made in the new home."""
    owner, home = pwd.getpwnam(plan.user), Path(plan.home)
    if source != home and not (home / "config.yaml").exists():
        for name in COPIED_SETTINGS:
            found, target = source / name, home / name
            if os.path.lexists(target):  # a link of the user must not lead root elsewhere
                continue
            if found.is_dir():
                shutil.copytree(found, target)
            elif found.is_file():
                write_atomically(target, found.read_bytes())
            else:
                continue
            yield f"settings {target}"
    if mode:
        from hermes.settings.edit import set_value

        set_value(home, "watch.mode", mode)
        yield f"mode {mode}"
    for folder, folders, names in os.walk(home):
        for each in (folder, *(os.path.join(folder, name) for name in (*folders, *names))):  # noqa: PTH118
            os.chown(each, owner.pw_uid, owner.pw_gid, follow_symlinks=False)


def _write_file(file: ServiceFile) -> bool:
    """Return True when it changed something."""
    if file.path.is_file() and file.path.read_text() == file.text:
        return False
    write_atomically(file.path, file.text, mode=file.mode, keep_mode=False)
    file.path.chmod(file.mode)
    return True


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _is_changed(name: str, digest: str) -> bool:
    try:
        return _digest(Path(name).read_bytes()) != digest
    except OSError:
        return True


def _run(command: Sequence[str]) -> tuple[int, str]:
    """The exit code and the output; 127 when there is no such program."""
    try:
        done = subprocess.run(  # noqa: TID251 - our own installation, not an environment
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
        )
    except FileNotFoundError:
        return 127, f"{command[0]} is not installed"
    except subprocess.TimeoutExpired:
        return 124, f"no answer within {COMMAND_TIMEOUT_S:g} s"
    return done.returncode, done.stdout + done.stderr


def _run_required(command: Sequence[str]) -> None:
    code, said = _run(command)
    if code:
        raise EnvironmentFailed(f"`{' '.join(command)}` failed ({code}): {said.strip()}")
