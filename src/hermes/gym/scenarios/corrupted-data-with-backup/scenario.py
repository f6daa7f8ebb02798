"""The data of a service is damaged; only one of its backups is both complete and recent."""

import hashlib
import json

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    PYTHON_COMMAND,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)

TEXTS = texts(__file__)

CHECKSUM_SOURCE = """\
import hashlib

def rows_of(path):
    *lines, last = open(path, errors="replace").read().splitlines() or [""]
    if not last.startswith("sha256:"):
        return [], "no checksum at its end"
    found = hashlib.sha256("\\n".join(lines).encode()).hexdigest()
    return lines, "" if last == f"sha256:{found}" else "checksum mismatch"

"""

SERVICE_PROGRAM = """\
conf = settings(sys.argv[1])
rows, why = rows_of(conf["data"])
if why:
    fatal(%%damaged%%.format(path=conf["data"], why=why))

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if path == "/rows":
        return 200, {"rows": [json.loads(row) for row in rows]}
    return 404, {"error": "no such page"}

serve(int(conf["port"]), answer)
"""

VERIFY_PROGRAM = """\
import sys

for path in sys.argv[1:]:
    rows, why = rows_of(path)
    print(f"{path}: {why or 'whole'}, {len(rows)} rows")
"""
DAMAGE_COMMANDS = (
    "python3 -c \"p='{path}'; b=bytearray(open(p,'rb').read()); b[{at}:{at}+9]=bytes(9);"
    " open(p,'wb').write(b)\"",
    "truncate -s -{cut} {path}",
    "sed -i '3s/[0-9a-z]/#/' {path}",
)


def render_data_file(rows: list[str]) -> str:
    body = "\n".join(rows)
    return f"{body}\nsha256:{hashlib.sha256(body.encode()).hexdigest()}\n"


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    ids = [rng.token() for _ in range(rng.number(14, 30))]
    rows = [json.dumps({"id": each, "sum": rng.number(1, 900)}) for each in ids]
    data = f"{layout.data}/{rng.pick(('rows', 'ledger', 'store', 'book'))}.jsonl"
    folder = rng.pick(("/var/backups", "/srv/backup", "/opt/backup", f"{layout.data}/old"))
    stem = f"{folder}/{service}-{rng.word()}"
    days = sorted(rng.some(range(10, 29), 4))
    paths = [f"{stem}-{day}.jsonl" for day in days]
    # Oldest first: an old complete one, the right one, a truncated one, one of damaged data.
    right = render_data_file(rows)
    kept = (
        render_data_file(rows[: len(rows) // 2]),
        right,
        right[: len(right) * 2 // 3],
        right.replace(ids[2], "\0" * 8),
    )
    files = (
        HostFile(
            path=layout.program,
            text=render_program(
                rng, CHECKSUM_SOURCE + SERVICE_PROGRAM, damaged=rng.wording(TEXTS["damaged"])
            ),
        ),
        HostFile(path=f"{folder}/verify.py", text=CHECKSUM_SOURCE + VERIFY_PROGRAM),
        layout.settings(port=layout.port, data=data),
        HostFile(path=data, text=right),
        *(HostFile(path=path, text=text) for path, text in zip(paths, kept, strict=True)),
        *neighbour.files,
    )
    serves = HttpCheck(
        name="the last row is served", port=layout.port, path="/rows", contains=ids[-1]
    )
    damage = rng.pick(DAMAGE_COMMANDS).format(
        path=data, at=rng.number(40, 200), cut=rng.number(70, 300)
    )
    ages = "; ".join(
        f"touch -d '-{30 - day} days' {path}" for day, path in zip(days, paths, strict=True)
    )
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=files,
                units=(service_unit(service, layout.command), neighbour.unit),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P0", service=service, host=host, port=layout.port),
        healthy=(
            serves,
            UnitRunningCheck(name="its unit runs", unit=layout.unit),
            neighbour.answers,
        ),
        symptoms=(serves,),
        inject=(
            change_log_script(rng),
            ages,
            f"{damage} && systemctl restart {service} || true",
        ),
        cure=(FaultTrigger(restart=(layout.unit,)),),
        collateral=(
            *neighbour.unharmed,
            *(UnchangedCheck(name=f"backup {path}", path=path) for path in paths),
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name="its settings", path=layout.conf),
        ),
        fault=FaultDescription(
            component=(data, data.rpartition("/")[2], service),
            mechanism=("corrupt", "corrupted", "damaged", "checksum", "truncated"),
            value=(data, paths[1], "checksum mismatch", "no checksum"),
        ),
        reference=(
            f"{PYTHON_COMMAND} {folder}/verify.py {data} {stem}-*",
            f"cp {data} {data}.damaged && cp {paths[1]} {data}",
            f"systemctl reset-failed {service}; systemctl restart {service}",
        ),
        relief=(
            f"cp {paths[0]} {data}; systemctl reset-failed {service}; systemctl restart {service}",
        ),
        shortcut=(
            f"cp {paths[1]} {data}; rm -f {stem}-*",
            f"systemctl reset-failed {service}; systemctl restart {service}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/rows", "/health")),),
    )


SCENARIO = Scenario(
    name="corrupted-data-with-backup",
    group="files",
    summary="damaged data, and four backups of which only one is whole and recent",
    draw=draw,
)
