"""Where a service keeps its things, who lives next door, and what was changed lately.

Two episodes of one fault should have no path, name or line in common that gives it away.
"""

import json
import shlex

from hermes.core.messages import Value
from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import SHELF, program
from hermes.gym.parts.shop import unit
from hermes.gym.story import Alert, Check, File, Http, Running, Same, Severity

PYTHON = "/usr/bin/python3 -S"
_PROGRAMS = (
    "/opt/{n}/server.py",
    "/opt/{n}/bin/{n}d.py",
    "/srv/{n}/app/main.py",
    "/opt/{n}/{n}.py",
)
_CONFS = ("/etc/{n}/{n}.conf", "/etc/{n}.conf", "/etc/{n}/settings.ini", "/opt/{n}/etc/app.conf")
_DATA = ("/var/lib/{n}", "/srv/{n}/data", "/var/opt/{n}", "/opt/{n}/data")
_SIGNS = (" = ", "=", ": ")
_PEOPLE = ("mira", "jonas", "deploy", "ansible", "oncall", "tomas", "ci-runner", "priya", "root")
_CHANGES = (
    "installed security updates for {word}-libs",
    "rotated the access token of {word}",
    "renewed the certificate of {word}.internal",
    "raised the log retention of {word} to {number} days",
    "added {word} to the dashboard",
    "moved the backups of {word} to disk {number}",
    "closed ticket {word}-{number} without changes",
    "removed the old user {word} from the wiki",
    "updated the runbook of {word}, page {number}",
    "restarted {word} after an upgrade of the kernel headers",
)


class Premises(Value, kw_only=True, frozen=True):
    """Of one service."""

    name: str
    port: int
    program: str
    conf: str
    data: str
    sign: str
    """Between the name of a setting and its value."""

    @property
    def unit(self) -> str:
        return f"{self.name}.service"

    @property
    def command(self) -> str:
        return f"{PYTHON} {self.program} {self.conf}"

    def settings(self, **values: object) -> File:
        lines = [f"# {self.name}", *(f"{key}{self.sign}{each}" for key, each in values.items())]
        return File(path=self.conf, text="\n".join(lines) + "\n")

    def put(self, key: str, value: object) -> str:
        """A command that changes one setting."""
        return f"sed -i 's|^{key}{self.sign}.*|{key}{self.sign}{value}|' {self.conf}"


def premises(dice: Dice, name: str) -> Premises:
    def at(paths: tuple[str, ...]) -> str:
        return dice.pick(paths).format(n=name)

    return Premises(
        name=name,
        port=dice.port(),
        program=at(_PROGRAMS),
        conf=at(_CONFS),
        data=at(_DATA),
        sign=dice.pick(_SIGNS),
    )


class Neighbour(Value, kw_only=True, frozen=True):
    files: tuple[File, ...]
    unit: File
    answers: Check
    unharmed: tuple[Check, ...]
    """For collateral: it answers, nobody restarted it, and its things are as they were."""


def neighbour(dice: Dice, name: str) -> Neighbour:
    """Another service on the same host that has nothing to do with the fault."""
    place, item = premises(dice, name), dice.token()
    shelf = f"{place.data}/items.json"
    files = (
        File(path=place.program, text=program(dice, SHELF)),
        place.settings(port=place.port, data=shelf),
        File(path=shelf, text=json.dumps([item, dice.word()])),
    )
    answers = Http(
        name=f"{name}, next door, answers", port=place.port, path="/items", contains=item
    )
    return Neighbour(
        files=files,
        unit=unit(name, place.command),
        answers=answers,
        unharmed=(
            answers,
            Running(name=f"{name} was left alone", unit=place.unit, undisturbed=True),
            Same(name=f"the data of {name}", path=place.data),
            Same(name=f"the settings of {name}", path=place.conf),
        ),
    )


def alert(dice: Dice, wordings: list[str], severity: Severity, **facts: object) -> Alert:
    """Labels as a monitor sets them; `service`, `host` and `port` are always told."""
    text = dice.wording(wordings).format(minutes=dice.number(2, 19), **facts)
    labels = {"service": f"{facts['service']}", "instance": f"{facts['host']}:{facts['port']}"}
    return Alert(title=text, text=text, severity=severity, labels=labels)


def changes(dice: Dice, *told: str) -> str:
    """A script that writes the list of late changes; those told among others that mean nothing."""
    path = dice.pick(("/var/log/changes.log", "/var/log/ops/changes.log", "/srv/CHANGES.txt"))
    noise = [
        text.format(word=dice.word(), number=dice.number(2, 30))
        for text in dice.some(_CHANGES, dice.number(3, 6))
    ]
    lines = [*told, *noise]
    ages = sorted((dice.number(3, 900) for _ in lines), reverse=True)
    entries = []
    for age, text in zip(ages, dice.some(lines, len(lines)), strict=True):
        entry = shlex.quote(f"{dice.pick(_PEOPLE)}: {text}")
        entries.append(f"echo \"$(date -d '-{age} min' '+%F %H:%M')\" {entry}")
    return f"mkdir -p $(dirname {path}); {{ {'; '.join(entries)}; }} >> {path}"


def by_hand(place: Premises, *, before: str = "", command: str = "") -> str:
    """Starts the program outside of its supervisor, as people do in the small hours."""
    line = command or place.command
    return f"(setsid nohup env {before} {line} </dev/null >/dev/null 2>&1 &) ; sleep 0.2"
