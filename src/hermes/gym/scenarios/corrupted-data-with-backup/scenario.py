"""The data of a service is damaged; among its backups only one is both whole and recent."""

import hashlib
import json

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.premises import PYTHON, alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

CHECK = """\
import hashlib

def rows_of(path):
    *lines, last = open(path, errors="replace").read().splitlines() or [""]
    if not last.startswith("sha256:"):
        return [], "no checksum at its end"
    found = hashlib.sha256("\\n".join(lines).encode()).hexdigest()
    return lines, "" if last == f"sha256:{found}" else "checksum mismatch"

"""

BODY = """\
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

VERIFY = """\
import sys

for path in sys.argv[1:]:
    rows, why = rows_of(path)
    print(f"{path}: {why or 'whole'}, {len(rows)} rows")
"""
DAMAGE = (
    "python3 -c \"p='{path}'; b=bytearray(open(p,'rb').read()); b[{at}:{at}+9]=bytes(9);"
    " open(p,'wb').write(b)\"",
    "truncate -s -{cut} {path}",
    "sed -i '3s/[0-9a-z]/#/' {path}",
)


def stored(rows: list[str]) -> str:
    body = "\n".join(rows)
    return f"{body}\nsha256:{hashlib.sha256(body.encode()).hexdigest()}\n"


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    ids = [dice.token() for _ in range(dice.number(14, 30))]
    rows = [json.dumps({"id": each, "sum": dice.number(1, 900)}) for each in ids]
    data = f"{place.data}/{dice.pick(('rows', 'ledger', 'store', 'book'))}.jsonl"
    folder = dice.pick(("/var/backups", "/srv/backup", "/opt/backup", f"{place.data}/old"))
    stem = f"{folder}/{service}-{dice.word()}"
    days = sorted(dice.some(range(10, 29), 4))
    paths = [f"{stem}-{day}.jsonl" for day in days]
    # Oldest first: an old whole one, the right one, one cut short, one taken of damaged data.
    right = stored(rows)
    kept = (
        stored(rows[: len(rows) // 2]),
        right,
        right[: len(right) * 2 // 3],
        right.replace(ids[2], "\0" * 8),
    )
    files = (
        File(
            path=place.program,
            text=program(dice, CHECK + BODY, damaged=dice.wording(TEXTS["damaged"])),
        ),
        File(path=f"{folder}/verify.py", text=CHECK + VERIFY),
        place.settings(port=place.port, data=data),
        File(path=data, text=right),
        *(File(path=path, text=text) for path, text in zip(paths, kept, strict=True)),
        *beside.files,
    )
    serves = Http(name="the last row is served", port=place.port, path="/rows", contains=ids[-1])
    damage = dice.pick(DAMAGE).format(path=data, at=dice.number(40, 200), cut=dice.number(70, 300))
    ages = "; ".join(
        f"touch -d '-{30 - day} days' {path}" for day, path in zip(days, paths, strict=True)
    )
    return Story(
        hosts=(Host(name=host, files=files, units=(unit(service, place.command), beside.unit)),),
        alert=alert(dice, TEXTS["alerts"], "P0", service=service, host=host, port=place.port),
        healthy=(serves, Running(name="its unit runs", unit=place.unit), beside.answers),
        symptoms=(serves,),
        inject=(
            changes(dice),
            ages,
            f"{damage} && systemctl restart {service} || true",
        ),
        cure=(Trigger(restart=(place.unit,)),),
        collateral=(
            *beside.unharmed,
            *(Same(name=f"backup {path}", path=path) for path in paths),
            Same(name="the program", path=place.program),
            Same(name="its settings", path=place.conf),
        ),
        fault=Fault(
            component=(data, data.rpartition("/")[2], service),
            mechanism=("corrupt", "corrupted", "damaged", "checksum", "truncated"),
            value=(data, paths[1], "checksum mismatch", "no checksum"),
        ),
        reference=(
            f"{PYTHON} {folder}/verify.py {data} {stem}-*",
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
        traffic=(Traffic(port=place.port, paths=("/rows", "/health")),),
    )


SCENARIO = Scenario(
    name="corrupted-data-with-backup",
    group="files",
    summary="damaged data, and four backups of which only one is whole and recent",
    draw=draw,
)
