#!/usr/bin/env python3
"""`systemctl` for a host of a box: the verbs that are used in an incident.

Started many times in an episode: imports little, so that it starts quickly.
"""

from __future__ import annotations

import _socket
import marshal
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

CONTROL_SOCKET = "/run/systemd/private"
UNIT_FOLDER = "/etc/systemd/system"
WANTS_FOLDER = f"{UNIT_FOLDER}/multi-user.target.wants"
OPTIONS_WITH_VALUE = {
    "-p",
    "--property",
    "-n",
    "--lines",
    "-t",
    "--type",
    "-o",
    "--output",
    "--state",
    "--drop-in",
}
EDITOR = "${SYSTEMD_EDITOR:-${EDITOR:-$VISUAL}}"
VERB_ALIASES = {
    "try-restart": "restart",
    "reload-or-restart": "restart",
    "condrestart": "restart",
    "list-unit-files": "list-units",
    "daemon-reexec": "daemon-reload",
}


def print_line(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def print_error(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def ask_supervisor(verb: str, name: str = "") -> dict[str, Any]:
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        line.connect(CONTROL_SOCKET)
        peer = int.from_bytes(line.getsockopt(_socket.SOL_SOCKET, _socket.SO_PEERCRED, 4), "little")
        if peer != 1:  # the socket has a name in the file system, which root can give to another
            raise ConnectionRefusedError(f"{CONTROL_SOCKET} is not the one of the first process")
        line.send(f"{verb}\t{name}".encode())
        answer: dict[str, Any] = marshal.loads(line.recv(1 << 20))
    finally:
        line.close()
    return answer


class SystemctlArguments:
    def __init__(self, words: Sequence[str]) -> None:
        self.options: dict[str, str] = {}
        plain = []
        rest = iter(words)
        for word in rest:
            name, equals, value = word.partition("=")
            if word[:2] == "-p" and word[2:]:
                name, value = "-p", word[2:].lstrip("=")
            elif name in OPTIONS_WITH_VALUE and not equals:
                value = next(rest, "")
            if word.startswith("-"):
                earlier = self.options.get(name)
                self.options[name] = f"{earlier},{value}" if earlier else value
            else:
                plain.append(word)
        verb = plain[0] if plain else "list-units"
        self.verb = VERB_ALIASES.get(verb, verb)
        self.names = [name if "." in name else f"{name}.service" for name in plain[1:]]

    def has(self, *options: str) -> bool:
        return any(option in self.options for option in options)


def show_status(arguments: SystemctlArguments) -> int:
    if not arguments.names:
        return list_units(arguments)
    return max(_show_unit_status(name) for name in arguments.names)


def _show_unit_status(name: str) -> int:
    found = ask_supervisor("show", name)
    if found.get("missing"):
        print_error(f"Unit {name} could not be found.")
        return 4
    if found["stale"]:
        print_error(
            f"Warning: The unit file, source configuration file or drop-ins of {name} changed on "
            "disk. Run 'systemctl daemon-reload' to reload units."
        )
    for line in _status_lines(found):
        print_line(line)
    sys.stdout.flush()
    os.spawnvp(os.P_WAIT, "journalctl", ["journalctl", "-q", "-u", name, "-n", "10"])
    return 0 if found["state"] == "active" else 3


def _status_lines(found: dict[str, Any]) -> Iterator[str]:
    state, since = found["state"], found["since"]
    mark = {"active": "●", "failed": "×"}.get(state, "○")
    enabled = "enabled" if found["enabled"] else "disabled"
    inner = f"Result: {found['result']}" if state == "failed" else found["sub"]
    when = time.strftime("%a %Y-%m-%d %H:%M:%S %Z", time.localtime(since))
    yield f"{mark} {found['name']} - {found['description'] or found['name']}"
    yield f"     Loaded: loaded ({found['path']}; {enabled}; preset: enabled)"
    yield f"     Active: {state} ({inner}) since {when}; {max(0, int(time.time() - since))}s ago"
    if found["pid"]:
        yield f"   Main PID: {found['pid']} ({found['command'].split()[0].rpartition('/')[2]})"
    elif found["code"] is not None:
        code = found["code"]
        how = f"code=exited, status={code}" if code >= 0 else f"code=killed, signal={-code}"
        yield f"    Process: ExecStart={found['command']} ({how})"
    yield ""


def list_units(arguments: SystemctlArguments) -> int:
    failed = arguments.has("--failed") or arguments.options.get("--state") == "failed"
    found = [
        each for each in ask_supervisor("list")["units"] if not failed or each["state"] == "failed"
    ]
    pattern = arguments.names[0].removesuffix(".service").strip("*") if arguments.names else ""
    shown = [each for each in found if pattern in each["name"]]
    print_line(f"  {'UNIT':32} {'LOAD':6} {'ACTIVE':12} {'SUB':12} DESCRIPTION")
    for each in shown:
        mark = "●" if each["state"] == "failed" else " "
        states = f"{'loaded':6} {each['state']:12} {each['sub']:12}"
        print_line(f"{mark} {each['name']:32} {states} {each['description']}")
    print_line(f"\n{len(shown)} loaded units listed.")
    return 0


def show_properties(arguments: SystemctlArguments) -> int:
    wanted = {
        name
        for option in ("-p", "--property")
        for name in arguments.options.get(option, "").split(",")
    } - {""}
    for name in arguments.names:
        found = ask_supervisor("show", name)
        facts = {
            "Id": name,
            "LoadState": "not-found" if found.get("missing") else "loaded",
            "ActiveState": found.get("state", "inactive"),
            "SubState": found.get("sub", "dead"),
            "Result": found.get("result", "success"),
            "MainPID": found.get("pid", 0),
            "ExecMainStatus": found.get("code") or 0,
            "NRestarts": found.get("restarts", 0),
            "FragmentPath": found.get("path", ""),
            "UnitFileState": "enabled" if found.get("enabled") else "disabled",
            "NeedDaemonReload": "yes" if found.get("stale") else "no",
            "DropInPaths": " ".join(found.get("drop_ins", ())),
            "Environment": found.get("environment", ""),
            "LimitNOFILE": found.get("file_limits", (0, 0))[1],
            "LimitNOFILESoft": found.get("file_limits", (0, 0))[0],
        }
        for key, value in facts.items():
            if not wanted or key in wanted:
                print_line(str(value) if arguments.has("--value") else f"{key}={value}")
    return 0


def print_unit_files(arguments: SystemctlArguments) -> int:
    for name in arguments.names:
        path, extra = f"{UNIT_FOLDER}/{name}", f"{UNIT_FOLDER}/{name}.d"
        if not os.path.exists(path):  # noqa: PTH110 - pathlib is slow to import
            print_error(f"No files found for {name}.")
            return 1
        more = sorted(os.listdir(extra)) if os.path.isdir(extra) else []  # noqa: PTH208, PTH112
        for each in [path, *(f"{extra}/{one}" for one in more)]:
            with open(each, errors="replace") as file:  # noqa: PTH123 - see above
                print_line(f"# {each}\n{file.read()}")
    return 0


def edit_units(arguments: SystemctlArguments) -> int:
    """With an editor, or with --stdin the text itself. The unit files are loaded afterwards."""
    from_stdin = arguments.has("--stdin")
    if not from_stdin and _run_shell(f'test -n "{EDITOR}"'):
        print_error("Cannot edit units if not on a tty. Set EDITOR, or use --stdin.")
        return 1
    for name in arguments.names:
        unit = f"{UNIT_FOLDER}/{name}"
        if not os.path.exists(unit):  # noqa: PTH110 - pathlib is slow to import
            print_error(f"No files found for {name}.")
            return 1
        drop_in = arguments.options.get("--drop-in") or "override"
        path = f"{unit}.d/{drop_in.removesuffix('.conf')}.conf"
        if not _edit_file(unit if arguments.has("--full") else path, from_stdin):
            print_error(f"Editing {name} canceled: temporary file is empty.")
            return 1
    return reload_unit_files(arguments)


def _run_shell(script: str, *words: str) -> int:
    return os.spawnlp(os.P_WAIT, "sh", "sh", "-c", script, "sh", *words)


def _edit_file(path: str, from_stdin: bool) -> bool:
    """Replaces the file at once; False when nothing was written."""
    os.makedirs(os.path.dirname(path), exist_ok=True)  # noqa: PTH103, PTH120 - see above
    text = ""
    if os.path.exists(path):  # noqa: PTH110 - see above
        with open(path, errors="replace") as file:  # noqa: PTH123 - see above
            text = file.read()
    if from_stdin:
        text = sys.stdin.read()
    draft = f"{path}.edited"
    with open(draft, "w") as file:  # noqa: PTH123 - see above
        file.write(text)
    if not from_stdin and _run_shell(f'{EDITOR} "$1"', draft):
        os.unlink(draft)  # noqa: PTH108 - see above
        return False
    with open(draft, errors="replace") as file:  # noqa: PTH123 - see above
        written = bool(file.read().strip())
    if written:
        os.rename(draft, path)  # noqa: PTH104 - see above
    else:
        os.unlink(draft)  # noqa: PTH108 - see above
    return written


def list_timers(arguments: SystemctlArguments) -> int:
    """The supervisor runs no timers; cron does that here. Their files are listed."""
    names = [each for each in sorted(os.listdir(UNIT_FOLDER)) if each.endswith(".timer")]  # noqa: PTH208
    print_line(f"{'NEXT':5} {'LEFT':5} {'LAST':5} {'PASSED':7} {'UNIT':32} ACTIVATES")
    for name in names:
        print_line(f"{'-':5} {'-':5} {'-':5} {'-':7} {name:32} {name[:-6]}.service")
    print_line(f"\n{len(names)} timers listed.")
    return 0


def enable_or_disable(arguments: SystemctlArguments) -> int:
    os.makedirs(WANTS_FOLDER, exist_ok=True)  # noqa: PTH103 - see above
    for name in arguments.names:
        link = f"{WANTS_FOLDER}/{name}"
        if arguments.verb == "enable" and not os.path.lexists(link):
            os.symlink(f"{UNIT_FOLDER}/{name}", link)  # noqa: PTH211 - see above
            print_error(f"Created symlink {link} → {UNIT_FOLDER}/{name}.")
        elif arguments.verb == "disable" and os.path.lexists(link):
            os.unlink(link)  # noqa: PTH108 - see above
            print_error(f'Removed "{link}".')
    if arguments.has("--now"):
        return _apply_to_units("start" if arguments.verb == "enable" else "stop", arguments.names)
    return 0


def print_state(arguments: SystemctlArguments) -> int:
    wanted = {"is-active": "active", "is-failed": "failed", "is-enabled": "enabled"}[arguments.verb]
    fits = False
    for name in arguments.names:
        found = ask_supervisor("show", name)
        state = found.get("state", "inactive")
        if arguments.verb == "is-enabled":
            state = "enabled" if found.get("enabled") else "disabled"
        if not arguments.has("-q", "--quiet"):
            print_line(state)
        fits = fits or state == wanted
    return 0 if fits else 3 if arguments.verb == "is-active" else 1


def reload_unit_files(arguments: SystemctlArguments) -> int:
    return 1 if ask_supervisor("daemon-reload").get("error") else 0


def change_state(arguments: SystemctlArguments) -> int:
    names = arguments.names
    if arguments.verb == "reset-failed" and not names:
        names = [each["name"] for each in ask_supervisor("list")["units"]]
    return _apply_to_units(arguments.verb, names)


def _apply_to_units(verb: str, names: Sequence[str]) -> int:
    worst = 0
    for name in names:
        answer = ask_supervisor(verb, name)
        if answer.get("missing"):
            print_error(f"Failed to {verb} {name}: {answer['error']}")
            worst = 5
        elif answer.get("error"):
            print_error(f"Job for {name} failed: {answer['error']}")
            print_error(f'See "systemctl status {name}" and "journalctl -xeu {name}" for details.')
            worst = max(worst, 1)
    return worst


VERBS: dict[str, Callable[[SystemctlArguments], int]] = {
    "status": show_status,
    "list-units": list_units,
    "show": show_properties,
    "cat": print_unit_files,
    "edit": edit_units,
    "list-timers": list_timers,
    "enable": enable_or_disable,
    "disable": enable_or_disable,
    "is-active": print_state,
    "is-failed": print_state,
    "is-enabled": print_state,
    "daemon-reload": reload_unit_files,
    "start": change_state,
    "stop": change_state,
    "restart": change_state,
    "reload": change_state,
    "reset-failed": change_state,
}


def main(words: Sequence[str]) -> int:
    arguments = SystemctlArguments(words)
    verb = VERBS.get(arguments.verb)
    if verb is None:
        print_error(f"Unknown command verb {arguments.verb}.")
        return 1
    try:
        return verb(arguments)
    except (OSError, ValueError) as error:
        print_error(f"Failed to connect to bus: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
