"""One service may open more sessions than the database allows, and uses up all of them."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.postgres import PG_CLIENT, POSTGRES_NEEDS, postgres_server
from hermes.gym.services.python_service import (
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
)
from hermes.gym.services.shell_scripts import checked_requests_script

TEXTS = texts(__file__)

LEAKING_PROGRAM = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])
most, pool, turn, alone = int(conf[%%key%%]), [], 0, threading.Lock()

def lend():
    global turn
    if len(pool) < most:
        pool.append(Session(conf))
        log("INFO", %%opened%%.format(count=len(pool)))
    turn += 1
    return pool[turn % len(pool)]

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    with alone:
        session = None
        try:
            session = lend()
            rows = session.ask("SELECT sku FROM items ORDER BY id")
        except DbError as error:
            if session in pool:
                pool.remove(session)
            log("ERROR", %%refused%%.format(error=error))
            return 503, {"error": "database"}
    return 200, {"items": [row[0] for row in rows]}

serve(int(conf["port"]), answer)
"""
)

CLIENT_PROGRAM = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        session = Session(conf)
        rows = session.ask("SELECT count(*), max(sku) FROM items")
        session.close()
    except DbError as error:
        log("ERROR", %%refused%%.format(error=error))
        return 503, {"error": "database"}
    return 200, {"count": rows[0][0], "last": rows[0][1]}

serve(int(conf["port"]), answer)
"""
)


def draw(rng: RandomSource) -> ScenarioSpec:
    service, reader, other = rng.services(3)
    layout, readers, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, reader),
        draw_neighbour(rng, other),
    )
    host, key = rng.host(), rng.pick(("pool_max", "db_sessions", "max_pool", "connections_max"))
    right, wrong, slots = rng.number(2, 4), rng.pick((40, 50, 64, 80, 100)), rng.number(12, 16)
    items = [f"{rng.word()}-{rng.token(5)}" for _ in range(rng.number(5, 12))]
    secret = rng.token(14)
    rows = ", ".join(f"({n}, '{each}')" for n, each in enumerate(items))
    db = postgres_server(
        rng,
        [
            "CREATE TABLE items (id int PRIMARY KEY, sku text NOT NULL)",
            f"INSERT INTO items VALUES {rows}",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'" for name in (service, reader)),
            f"GRANT SELECT ON items TO {service}, {reader}",
        ],
        max_connections=slots,
    )
    access = {"db_port": db.port, "db_name": db.database, "db_password": secret}
    refused = rng.wording(TEXTS["refused"])
    files = (
        *db.files,
        HostFile(
            path=layout.program,
            text=render_program(
                rng, LEAKING_PROGRAM, key=key, refused=refused, opened=rng.wording(TEXTS["opened"])
            ),
        ),
        HostFile(path=readers.program, text=render_program(rng, CLIENT_PROGRAM, refused=refused)),
        layout.settings(port=layout.port, db_user=service, **access, **{key: right}),
        readers.settings(port=readers.port, db_user=reader, **access),
        *neighbour.files,
    )
    listed = HttpCheck(
        name="the items are listed", port=layout.port, path="/items", contains=items[0]
    )
    counted = HttpCheck(
        name=f"{reader} can count", port=readers.port, path="/count", contains=f'"{len(items)}"'
    )
    few = db.says(
        "the service keeps to few sessions",
        f"SELECT count(*) <= {right + 2} FROM pg_stat_activity WHERE usename = '{service}'",
        "t",
    )
    after = "postgresql.service"
    flood = checked_requests_script(layout.port, "/items", slots + 6)
    return ScenarioSpec(
        hosts=(db.host(host, files, (layout, readers), neighbour.unit),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=reader, host=host, port=readers.port),
        healthy=(listed, counted, few, neighbour.answers),
        symptoms=(counted, few),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(service=service, value=wrong)),
            f"{layout.put(key, wrong)}; systemctl restart {service}",
            flood,
        ),
        cure=(FaultTrigger(restart=(layout.unit,)), FaultTrigger(script=flood)),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="the database ran on", unit=after, undisturbed=True),
            UnitRunningCheck(name=f"{reader} runs", unit=readers.unit),
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name=f"the settings of {reader}", path=readers.conf),
            db.says("all rows are there", "SELECT count(*) FROM items", f"{len(items)}"),
        ),
        fault=FaultDescription(
            component=(service, layout.conf),
            mechanism=(
                "pool",
                "leak",
                "leaks",
                "too many",
                "exhausted",
                "exhausts",
                "connection slots",
            ),
            value=(key, f"{wrong}"),
        ),
        reference=(f"{layout.put(key, right)}; systemctl restart {service}",),
        relief=(f"systemctl restart {service}",),
        shortcut=(
            "sed -i 's/^max_connections.*/max_connections = 300/' "
            f"{db.conf}/postgresql.conf; systemctl restart postgresql",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="db-connections-exhausted",
    group="database",
    summary="the pool of one service is set larger than the database: others get no session",
    draw=draw,
    needs=POSTGRES_NEEDS,
)
