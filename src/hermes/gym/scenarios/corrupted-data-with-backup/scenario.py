"""The data of a service is damaged; only one of its backups is both complete and recent."""

import hashlib
import json

from hermes.gym.scenario_builder import PYTHON_COMMAND, ScenarioBuilder, build_scenario

DAMAGE_COMMANDS = (
    "python3 -c \"p='{path}'; b=bytearray(open(p,'rb').read()); b[{at}:{at}+9]=bytes(9);"
    " open(p,'wb').write(b)\"",
    "truncate -s -{cut} {path}",
    "sed -i '3s/[0-9a-z]/#/' {path}",
)


def render_data_file(rows: list[str]) -> str:
    body = "\n".join(rows)
    return f"{body}\nsha256:{hashlib.sha256(body.encode()).hexdigest()}\n"


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    ids = [rng.token() for _ in range(rng.number(14, 30))]
    rows = [json.dumps({"id": each, "sum": rng.number(1, 900)}) for each in ids]
    data = f"{app.data}/{rng.pick(('rows', 'ledger', 'store', 'book'))}.jsonl"
    folder = rng.pick(("/var/backups", "/srv/backup", "/opt/backup", f"{app.data}/old"))
    stem = f"{folder}/{app.name}-{rng.word()}"
    right = render_data_file(rows)
    # Oldest first: an old complete one, the right one, a truncated one, one of damaged data.
    kept = (
        render_data_file(rows[: len(rows) // 2]),
        right,
        right[: len(right) * 2 // 3],
        right.replace(ids[2], "\0" * 8),
    )
    backups = {day: f"{stem}-{day}.jsonl" for day in sorted(rng.some(range(10, 29), 4))}
    paths = list(backups.values())
    build.start(
        app,
        build.source("checksum.py.in") + build.source("service.py.in"),
        damaged=build.wording("damaged"),
    )
    build.file(f"{folder}/verify.py", build.source("checksum.py.in") + build.source("verify.py.in"))
    build.settings(app, port=app.port, data=data)
    build.file(data, right)
    for path, text in zip(paths, kept, strict=True):
        build.file(path, text)

    damage = rng.pick(DAMAGE_COMMANDS).format(
        path=data, at=rng.number(40, 200), cut=rng.number(70, 300)
    )
    start_again = f"systemctl reset-failed {app.name}; {app.restart}"
    build.alert("P0")
    build.symptoms(app.http("the last row is served", "/rows", ids[-1]))
    build.healthy(app.runs())
    build.inject(
        build.changes(),
        "; ".join(f"touch -d '-{30 - day} days' {path}" for day, path in backups.items()),
        f"{damage} && {app.restart} || true",
    )
    build.collateral(
        *((f"backup {path}", path) for path in paths),
        ("the program", app.program),
        ("its settings", app.conf),
    )
    build.fault(
        component=(data, data.rpartition("/")[2], app.name),
        mechanism="corrupt, corrupted, damaged, checksum, truncated",
        value=(data, paths[1], "checksum mismatch", "no checksum"),
    )
    build.responses(
        reference=(
            f"{PYTHON_COMMAND} {folder}/verify.py {data} {stem}-*",
            f"cp {data} {data}.damaged && cp {paths[1]} {data}",
            start_again,
        ),
        futile=f"cp {paths[0]} {data}; {start_again}",
        shortcut=(f"cp {paths[1]} {data}; rm -f {stem}-*", start_again),
    )
    build.traffic("/rows", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "files",
    "damaged data, and four backups of which only one is whole and recent",
)
