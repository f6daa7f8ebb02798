"""Small web services in Python for scenarios: their programs, units, file layout and neighbours.

The programs use bare sockets and threads: `http.server`, and even `json`, take longer to import
than the rest of such a service to start, and an episode starts eight of them.
"""

import json
import re
import shlex

from hermes.core.messages import Value
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario_spec import (
    HostFile,
    HttpCheck,
    ScenarioAlert,
    ScenarioCheck,
    Severity,
    UnchangedCheck,
    UnitRunningCheck,
)

LOG_STYLES = (
    "{time} {level:5} {text}",
    "[{time}] {level}: {text}",
    "{time} | {level:5} | {text}",
    'level={level} ts="{time}" msg="{text}"',
    "{level} {time} - {text}",
    "<{level}> {text} ({time})",
)

_PROGRAM_PRELUDE = """\
import _socket, _thread, os, sys, time
%%imports%%
STYLE = %%style%%

def log(level, text):
    now = time.strftime("%Y-%m-%d %H:%M:%S")
    print(STYLE.format(time=now, level=level, text=text), flush=True)

def fatal(text):
    log("FATAL", text)
    os._exit(1)

def settings(path):
    found = {}
    try:
        lines = open(path).read().splitlines()
    except OSError as error:
        fatal(f"cannot read {path}: {error.strerror}")
    for line in lines:
        at = min((line.find(sign) for sign in "=:" if sign in line), default=-1)
        if at > 0 and line[0] not in "#;[":
            found[line[:at].strip()] = line[at + 1 :].strip()
    return found

def written(body):
    if isinstance(body, dict):
        return "{" + ", ".join(f"{written(key)}: {written(body[key])}" for key in body) + "}"
    if isinstance(body, (list, tuple, set)):
        return "[" + ", ".join(map(written, body)) + "]"
    if isinstance(body, str):
        return '"' + body.replace("\\\\", "\\\\\\\\").replace('"', '\\\\"') + '"'
    return "null" if body is None else str(body).lower()

def talk(line, answer):
    line.settimeout(5)
    try:
        heard = line.recv(65536)
        while heard and not heard.endswith((b"\\r\\n\\r\\n", b"\\n\\n")):
            piece = line.recv(65536)
            if not piece:
                break
            heard += piece
        path = heard.split()[1].decode()
        status, body = answer(path)
        text = (body if isinstance(body, str) else written(body)).encode()
        head = f"HTTP/1.1 {status} -\\r\\nContent-Type: application/json\\r\\n"
        head += f"Content-Length: {len(text)}\\r\\nConnection: close\\r\\n\\r\\n"
        line.sendall(head.encode() + text)
        log("INFO" if status < 500 else "ERROR", f"GET {path} {status}")
    except (OSError, IndexError):
        return
    finally:
        line.close()

def listen(port):
    listener = _socket.socket()
    listener.setsockopt(_socket.SOL_SOCKET, _socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
    except OSError as error:
        fatal(f"cannot listen on 127.0.0.1:{port}: {error.strerror}")
    listener.listen(128)
    log("INFO", f"listening on 127.0.0.1:{port}")
    return listener

def serve(port, answer, listener=None):
    listener = listener or listen(port)
    while True:
        number, _ = listener._accept()
        _thread.start_new_thread(talk, (_socket.socket(fileno=number), answer))

"""

ITEM_LIST_PROGRAM = """\
conf = settings(sys.argv[1])
items = open(conf["data"]).read().strip()

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if path == "/items":
        return 200, '{"items": ' + items + "}"
    return 404, {"error": "no such page"}

serve(int(conf["port"]), answer)
"""
"""Serves a list from a file; used for services that have no fault."""


_OPTIONAL_IMPORTS = ("json", "random", "socket", "threading")
"""Imported when the body of a program uses them."""


def render_program(rng: RandomSource, body: str, **words: object) -> str:
    """The whole source, with a random log style; see `fill_program`."""
    return fill_program(body, style=rng.pick(LOG_STYLES), **words)


def fill_program(body: str, **words: object) -> str:
    """`%%name%%` in the body stands for the `repr` of a word."""
    used = [name for name in _OPTIONAL_IMPORTS if re.search(rf"(?<!\w){name}\.", body)]
    text = (
        _PROGRAM_PRELUDE.replace("%%imports%%", f"import {', '.join(used)}\n" if used else "")
        + body
    )
    for name, value in words.items():
        text = text.replace(f"%%{name}%%", repr(value))
    if "%%" in text:
        raise ValueError(f"a value is missing: {text[text.index('%%') :][:40]}")
    return text


_SHOP_PROGRAM = """\
path = sys.argv[1]
conf = settings(path)
try:
    port, data, workers = int(conf["port"]), conf["data"], int(conf["workers"])
except KeyError as error:
    fatal(f"{path}: there is no {error}")
except ValueError as error:
    fatal(f"{path}: {error}")
if not 1 <= workers <= 64:
    fatal(f"{path}: workers must be between 1 and 64, not {workers}")
try:
    items = open(data).read().strip()
except OSError as error:
    fatal(f"cannot load {data}: {error.strerror}")
log("INFO", f"starting with {workers} workers")

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if path == "/items":
        return 200, '{"items": ' + items + "}"
    return 404, {"error": "no such page"}

serve(port, answer)
"""


def shop_service(
    name: str, port: int, items: str, *, workers: int = 4
) -> tuple[list[HostFile], HostFile]:
    """The files of a service that serves a list of items, and its unit."""
    conf = f"[server]\nport = {port}\nworkers = {workers}\ndata = /srv/{name}/items.json\n"
    files = [
        HostFile(
            path=f"/opt/{name}/server.py", text=fill_program(_SHOP_PROGRAM, style=LOG_STYLES[0])
        ),
        HostFile(path=f"/etc/{name}/{name}.conf", text=conf),
        HostFile(path=f"/srv/{name}/items.json", text=items),
    ]
    return files, service_unit(
        name, f"/usr/bin/python3 -S -E /opt/{name}/server.py /etc/{name}/{name}.conf"
    )


def service_unit(
    name: str, command: str, *, more: str = "", after: str = "", user: str = ""
) -> HostFile:
    lines = [
        "[Unit]",
        f"Description={name.capitalize()} service",
        *([f"After={after}"] if after else []),
        "",
        "[Service]",
        f"ExecStart={command}",
        *([f"User={user}"] if user else []),
        "Restart=on-failure",
        "RestartSec=200ms",
        *more.splitlines(),
        "",
        "[Install]",
        "WantedBy=multi-user.target",
        "",
    ]
    return HostFile(path=f"{name}.service", text="\n".join(lines))


PYTHON_COMMAND = "/usr/bin/python3 -S"
_PROGRAM_PATHS = (
    "/opt/{n}/server.py",
    "/opt/{n}/bin/{n}d.py",
    "/srv/{n}/app/main.py",
    "/opt/{n}/{n}.py",
)
_CONFIG_PATHS = (
    "/etc/{n}/{n}.conf",
    "/etc/{n}.conf",
    "/etc/{n}/settings.ini",
    "/opt/{n}/etc/app.conf",
)
_DATA_FOLDERS = ("/var/lib/{n}", "/srv/{n}/data", "/var/opt/{n}", "/opt/{n}/data")
_ASSIGNMENT_SIGNS = (" = ", "=", ": ")
_CHANGE_AUTHORS = (
    "mira",
    "jonas",
    "deploy",
    "ansible",
    "oncall",
    "tomas",
    "ci-runner",
    "priya",
    "root",
)
_UNRELATED_CHANGES = (
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


class ServiceLayout(Value, kw_only=True, frozen=True):
    """Where a service keeps its program, settings and data."""

    name: str
    port: int
    program: str
    conf: str
    data: str
    sign: str
    """Separates the name of a setting from its value."""

    @property
    def unit(self) -> str:
        return f"{self.name}.service"

    @property
    def unit_file(self) -> str:
        return f"/etc/systemd/system/{self.unit}"

    @property
    def command(self) -> str:
        return f"{PYTHON_COMMAND} {self.program} {self.conf}"

    @property
    def restart(self) -> str:
        """A command."""
        return f"systemctl restart {self.name}"

    def settings(self, **values: object) -> HostFile:
        lines = [f"# {self.name}", *(f"{key}{self.sign}{each}" for key, each in values.items())]
        return HostFile(path=self.conf, text="\n".join(lines) + "\n")

    def put(self, key: str, value: object) -> str:
        """A command that changes one setting."""
        return f"sed -i 's|^{key}{self.sign}.*|{key}{self.sign}{value}|' {self.conf}"

    def put_and_restart(self, key: str, value: object) -> str:
        return f"{self.put(key, value)} && {self.restart}"

    def http(self, name: str, path: str = "/", contains: str = "") -> HttpCheck:
        """A check that the service replies with this text."""
        return HttpCheck(name=name, port=self.port, path=path, contains=contains)

    def runs(self, name: str = "its unit runs") -> UnitRunningCheck:
        return UnitRunningCheck(name=name, unit=self.unit)

    def undisturbed(self, name: str) -> UnitRunningCheck:
        """A check that it was not restarted."""
        return UnitRunningCheck(name=name, unit=self.unit, undisturbed=True)


def draw_layout(rng: RandomSource, name: str) -> ServiceLayout:
    def at(paths: tuple[str, ...]) -> str:
        return rng.pick(paths).format(n=name)

    return ServiceLayout(
        name=name,
        port=rng.port(),
        program=at(_PROGRAM_PATHS),
        conf=at(_CONFIG_PATHS),
        data=at(_DATA_FOLDERS),
        sign=rng.pick(_ASSIGNMENT_SIGNS),
    )


class NeighbourService(Value, kw_only=True, frozen=True):
    layout: ServiceLayout
    files: tuple[HostFile, ...]
    unit: HostFile
    answers: ScenarioCheck
    unharmed: tuple[ScenarioCheck, ...]
    """For collateral: it answers, was not restarted, and its files are unchanged."""


def draw_neighbour(rng: RandomSource, name: str) -> NeighbourService:
    """Another service on the same host, not affected by the fault."""
    layout, item = draw_layout(rng, name), rng.token()
    items_file = f"{layout.data}/items.json"
    files = (
        HostFile(path=layout.program, text=render_program(rng, ITEM_LIST_PROGRAM)),
        layout.settings(port=layout.port, data=items_file),
        HostFile(path=items_file, text=json.dumps([item, rng.word()])),
    )
    answers = HttpCheck(
        name=f"{name}, next door, answers", port=layout.port, path="/items", contains=item
    )
    return NeighbourService(
        layout=layout,
        files=files,
        unit=service_unit(name, layout.command),
        answers=answers,
        unharmed=(
            answers,
            UnitRunningCheck(name=f"{name} was left alone", unit=layout.unit, undisturbed=True),
            UnchangedCheck(name=f"the data of {name}", path=layout.data),
            UnchangedCheck(name=f"the settings of {name}", path=layout.conf),
        ),
    )


def draw_alert(
    rng: RandomSource,
    wordings: list[str],
    severity: Severity,
    *,
    max_minutes: int = 19,
    **facts: object,
) -> ScenarioAlert:
    """`facts` fill the wording; `service`, `host` and `port` are needed for the labels."""
    text = rng.wording(wordings).format(minutes=rng.number(2, max_minutes), **facts)
    labels = {"service": f"{facts['service']}", "instance": f"{facts['host']}:{facts['port']}"}
    return ScenarioAlert(title=text, text=text, severity=severity, labels=labels)


def change_log_script(rng: RandomSource, *relevant_changes: str) -> str:
    """A script that writes a log of recent changes, with unrelated ones among them."""
    path = rng.pick(("/var/log/changes.log", "/var/log/ops/changes.log", "/srv/CHANGES.txt"))
    noise = [
        text.format(word=rng.word(), number=rng.number(2, 30))
        for text in rng.some(_UNRELATED_CHANGES, rng.number(3, 6))
    ]
    lines = [*relevant_changes, *noise]
    ages = sorted((rng.number(3, 900) for _ in lines), reverse=True)
    entries = []
    for age, text in zip(ages, rng.some(lines, len(lines)), strict=True):
        entry = shlex.quote(f"{rng.pick(_CHANGE_AUTHORS)}: {text}")
        entries.append(f"echo \"$(date -d '-{age} min' '+%F %H:%M')\" {entry}")
    return f"mkdir -p $(dirname {path}); {{ {'; '.join(entries)}; }} >> {path}"


def start_unsupervised_script(layout: ServiceLayout, *, before: str = "", command: str = "") -> str:
    """Starts the program by hand, without the supervisor, as people do in an emergency."""
    line = command or layout.command
    return f"(setsid nohup env {before} {line} </dev/null >/dev/null 2>&1 &) ; sleep 0.2"
