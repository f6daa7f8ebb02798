#!/usr/bin/env python3
"""`systemctl` of a box: the verbs that people use when something is broken.

Started many times in an episode: it imports only what Python has loaded anyway, or nearly so.
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

SOCKET = "/run/systemd/private"
FOLDER = "/etc/systemd/system"
WANTS = f"{FOLDER}/multi-user.target.wants"
TAKE_A_VALUE = {"-p", "--property", "-n", "--lines", "-t", "--type", "-o", "--output", "--state"}
ALSO_CALLED = {
    "try-restart": "restart",
    "reload-or-restart": "restart",
    "condrestart": "restart",
    "list-unit-files": "list-units",
    "daemon-reexec": "daemon-reload",
}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")


def complain(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def ask(verb: str, name: str = "") -> dict[str, Any]:
    line = _socket.socket(_socket.AF_UNIX, _socket.SOCK_SEQPACKET)
    try:
        line.connect(SOCKET)
        line.send(f"{verb}\t{name}".encode())
        answer: dict[str, Any] = marshal.loads(line.recv(1 << 20))
    finally:
        line.close()
    return answer


class Wish:
    """The command line, taken apart."""

    def __init__(self, words: Sequence[str]) -> None:
        self.options: dict[str, str] = {}
        plain = []
        rest = iter(words)
        for word in rest:
            name, equals, value = word.partition("=")
            if name in TAKE_A_VALUE and not equals:
                value = next(rest, "")
            if word.startswith("-"):
                self.options[name] = value
            else:
                plain.append(word)
        verb = plain[0] if plain else "list-units"
        self.verb = ALSO_CALLED.get(verb, verb)
        self.names = [name if "." in name else f"{name}.service" for name in plain[1:]]

    def has(self, *options: str) -> bool:
        return any(option in self.options for option in options)


def status(wish: Wish) -> int:
    if not wish.names:
        return list_units(wish)
    return max(_status(name) for name in wish.names)


def _status(name: str) -> int:
    found = ask("show", name)
    if found.get("missing"):
        complain(f"Unit {name} could not be found.")
        return 4
    if found["stale"]:
        complain(
            f"Warning: The unit file, source configuration file or drop-ins of {name} changed on "
            "disk. Run 'systemctl daemon-reload' to reload units."
        )
    for line in _described(found):
        say(line)
    sys.stdout.flush()
    os.spawnvp(os.P_WAIT, "journalctl", ["journalctl", "-q", "-u", name, "-n", "10"])
    return 0 if found["state"] == "active" else 3


def _described(found: dict[str, Any]) -> Iterator[str]:
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


def list_units(wish: Wish) -> int:
    failed = wish.has("--failed") or wish.options.get("--state") == "failed"
    found = [each for each in ask("list")["units"] if not failed or each["state"] == "failed"]
    pattern = wish.names[0].removesuffix(".service").strip("*") if wish.names else ""
    shown = [each for each in found if pattern in each["name"]]
    say(f"  {'UNIT':32} {'LOAD':6} {'ACTIVE':12} {'SUB':12} DESCRIPTION")
    for each in shown:
        mark = "●" if each["state"] == "failed" else " "
        states = f"{'loaded':6} {each['state']:12} {each['sub']:12}"
        say(f"{mark} {each['name']:32} {states} {each['description']}")
    say(f"\n{len(shown)} loaded units listed.")
    return 0


def show(wish: Wish) -> int:
    wanted = {
        name for option in ("-p", "--property") for name in wish.options.get(option, "").split(",")
    } - {""}
    for name in wish.names:
        found = ask("show", name)
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
        }
        for key, value in facts.items():
            if not wanted or key in wanted:
                say(str(value) if wish.has("--value") else f"{key}={value}")
    return 0


def cat(wish: Wish) -> int:
    for name in wish.names:
        path, extra = f"{FOLDER}/{name}", f"{FOLDER}/{name}.d"
        if not os.path.exists(path):  # noqa: PTH110 - pathlib is slow to import
            complain(f"No files found for {name}.")
            return 1
        more = sorted(os.listdir(extra)) if os.path.isdir(extra) else []  # noqa: PTH208, PTH112
        for each in [path, *(f"{extra}/{one}" for one in more)]:
            with open(each, errors="replace") as file:  # noqa: PTH123 - see above
                say(f"# {each}\n{file.read()}")
    return 0


def enable(wish: Wish) -> int:
    os.makedirs(WANTS, exist_ok=True)  # noqa: PTH103 - see above
    for name in wish.names:
        link = f"{WANTS}/{name}"
        if wish.verb == "enable" and not os.path.lexists(link):
            os.symlink(f"{FOLDER}/{name}", link)  # noqa: PTH211 - see above
            complain(f"Created symlink {link} → {FOLDER}/{name}.")
        elif wish.verb == "disable" and os.path.lexists(link):
            os.unlink(link)  # noqa: PTH108 - see above
            complain(f'Removed "{link}".')
    if wish.has("--now"):
        return _each("start" if wish.verb == "enable" else "stop", wish.names)
    return 0


def tell_state(wish: Wish) -> int:
    wanted = {"is-active": "active", "is-failed": "failed", "is-enabled": "enabled"}[wish.verb]
    fits = False
    for name in wish.names:
        found = ask("show", name)
        said = found.get("state", "inactive")
        if wish.verb == "is-enabled":
            said = "enabled" if found.get("enabled") else "disabled"
        if not wish.has("-q", "--quiet"):
            say(said)
        fits = fits or said == wanted
    return 0 if fits else 3 if wish.verb == "is-active" else 1


def reload_files(wish: Wish) -> int:
    return 1 if ask("daemon-reload").get("error") else 0


def change(wish: Wish) -> int:
    names = wish.names
    if wish.verb == "reset-failed" and not names:
        names = [each["name"] for each in ask("list")["units"]]
    return _each(wish.verb, names)


def _each(verb: str, names: Sequence[str]) -> int:
    worst = 0
    for name in names:
        answer = ask(verb, name)
        if answer.get("missing"):
            complain(f"Failed to {verb} {name}: {answer['error']}")
            worst = 5
        elif answer.get("error"):
            complain(f"Job for {name} failed: {answer['error']}")
            complain(f'See "systemctl status {name}" and "journalctl -xeu {name}" for details.')
            worst = max(worst, 1)
    return worst


VERBS: dict[str, Callable[[Wish], int]] = {
    "status": status,
    "list-units": list_units,
    "show": show,
    "cat": cat,
    "enable": enable,
    "disable": enable,
    "is-active": tell_state,
    "is-failed": tell_state,
    "is-enabled": tell_state,
    "daemon-reload": reload_files,
    "start": change,
    "stop": change,
    "restart": change,
    "reload": change,
    "reset-failed": change,
}


def main(words: Sequence[str]) -> int:
    wish = Wish(words)
    verb = VERBS.get(wish.verb)
    if verb is None:
        complain(f"Unknown command verb {wish.verb}.")
        return 1
    try:
        return verb(wish)
    except (OSError, ValueError) as error:
        complain(f"Failed to connect to bus: {error}")
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
