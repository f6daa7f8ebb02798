"""One service may open more sessions than the database has: soon nobody gets one."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.pg_client import PG_CLIENT
from hermes.gym.parts.pg_server import NEEDS, postgres
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shell_lines import ask_often
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

POOLED = (
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

PLAIN = (
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


def draw(dice: Dice) -> Story:
    service, reader, other = dice.services(3)
    place, readers, beside = premises(dice, service), premises(dice, reader), neighbour(dice, other)
    host, key = dice.host(), dice.pick(("pool_max", "db_sessions", "max_pool", "connections_max"))
    right, wrong, slots = dice.number(2, 4), dice.pick((40, 50, 64, 80, 100)), dice.number(12, 16)
    items = [f"{dice.word()}-{dice.token(5)}" for _ in range(dice.number(5, 12))]
    secret = dice.token(14)
    rows = ", ".join(f"({n}, '{each}')" for n, each in enumerate(items))
    db = postgres(
        dice,
        [
            "CREATE TABLE items (id int PRIMARY KEY, sku text NOT NULL)",
            f"INSERT INTO items VALUES {rows}",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'" for name in (service, reader)),
            f"GRANT SELECT ON items TO {service}, {reader}",
        ],
        max_connections=slots,
    )
    access = {"db_port": db.port, "db_name": db.database, "db_password": secret}
    refused = dice.wording(TEXTS["refused"])
    files = (
        *db.files,
        File(
            path=place.program,
            text=program(
                dice, POOLED, key=key, refused=refused, opened=dice.wording(TEXTS["opened"])
            ),
        ),
        File(path=readers.program, text=program(dice, PLAIN, refused=refused)),
        place.settings(port=place.port, db_user=service, **access, **{key: right}),
        readers.settings(port=readers.port, db_user=reader, **access),
        *beside.files,
    )
    listed = Http(name="the items are listed", port=place.port, path="/items", contains=items[0])
    counted = Http(
        name=f"{reader} can count", port=readers.port, path="/count", contains=f'"{len(items)}"'
    )
    few = db.says(
        "the service keeps to few sessions",
        f"SELECT count(*) <= {right + 2} FROM pg_stat_activity WHERE usename = '{service}'",
        "t",
    )
    after = "postgresql.service"
    flood = ask_often(place.port, "/items", slots + 6)
    return Story(
        hosts=(db.host(host, files, (place, readers), beside.unit),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=reader, host=host, port=readers.port),
        healthy=(listed, counted, few, beside.answers),
        symptoms=(counted, few),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(service=service, value=wrong)),
            f"{place.put(key, wrong)}; systemctl restart {service}",
            flood,
        ),
        cure=(Trigger(restart=(place.unit,)), Trigger(script=flood)),
        collateral=(
            *beside.unharmed,
            Running(name="the database ran on", unit=after, undisturbed=True),
            Running(name=f"{reader} runs", unit=readers.unit),
            Same(name="the program", path=place.program),
            Same(name=f"the settings of {reader}", path=readers.conf),
            db.says("all rows are there", "SELECT count(*) FROM items", f"{len(items)}"),
        ),
        fault=Fault(
            component=(service, place.conf),
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
        reference=(f"{place.put(key, right)}; systemctl restart {service}",),
        relief=(f"systemctl restart {service}",),
        shortcut=(
            "sed -i 's/^max_connections.*/max_connections = 300/' "
            f"{db.conf}/postgresql.conf; systemctl restart postgresql",
        ),
        traffic=(Traffic(port=place.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="db-connections-exhausted",
    group="database",
    summary="the pool of one service is set larger than the database: others get no session",
    draw=draw,
    needs=NEEDS,
)
