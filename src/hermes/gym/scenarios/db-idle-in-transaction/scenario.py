"""A job changes rows and then leaves its transaction open: whoever writes to them waits."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.pg_client import PG_CLIENT
from hermes.gym.parts.pg_server import NEEDS, postgres
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shell_lines import moves
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import (
    Fault,
    File,
    Http,
    Running,
    Same,
    Script,
    Story,
    Traffic,
    Trigger,
)

TEXTS = texts(__file__)

WRITER = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])

def book():
    session = Session(conf)
    try:
        session.ask("SET lock_timeout = '700ms'")
        rows = session.ask("UPDATE stock SET booked = booked + 1 WHERE id = %%row%% RETURNING sku")
    finally:
        session.close()
    return rows[0][0]

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        return 200, {"booked": book()}
    except DbError as error:
        log("ERROR", %%failed%%.format(error=error))
        return 503, {"error": "try again"}

serve(int(conf["port"]), answer)
"""
)

WALKER = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])
every = int(conf[%%key%%])

def walk(session):
    ids = [row[0] for row in session.ask("SELECT id FROM stock ORDER BY id")]
    session.ask("BEGIN")
    for done, row in enumerate(ids, 1):
        session.ask(f"UPDATE stock SET checked = checked + 1 WHERE id = {row}")
        if every and done % every == 0:
            session.ask("COMMIT")
            session.ask("BEGIN")
        time.sleep(0.01)
    log("INFO", %%walked%%.format(count=len(ids)))
    if every:
        session.ask("COMMIT")
    while not every:
        session.ask("SELECT 1")
        time.sleep(0.2)

def keep_walking():
    while True:
        try:
            session = Session(conf)
            while True:
                walk(session)
        except DbError as error:
            log("WARN", f"starting over: {error}")
            time.sleep(0.1)

threading.Thread(target=keep_walking, daemon=True).start()
serve(int(conf["port"]), lambda path: (200, {"status": "ok"}))
"""
)


def draw(dice: Dice) -> Story:
    service, job, other = dice.services(3)
    job = f"{job}-{dice.pick(('audit', 'recount', 'backfill', 'sync', 'rollup'))}"
    place, jobs, beside = premises(dice, service), premises(dice, job), neighbour(dice, other)
    host, role = dice.host(), job.replace("-", "_")
    key = dice.pick(("commit_every", "batch", "rows_per_commit", "commit_after"))
    right, count, secret = dice.number(2, 4), dice.number(8, 14), dice.token(14)
    sku, row = dice.token(), dice.number(2, 6)
    names = [sku if n == row else f"{dice.word()}-{n}" for n in range(1, count + 1)]
    rows = ", ".join(f"({n}, '{each}', 0, 0)" for n, each in enumerate(names, 1))
    db = postgres(
        dice,
        [
            "CREATE TABLE stock (id int PRIMARY KEY, sku text, booked int, checked bigint)",
            f"INSERT INTO stock VALUES {rows}",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'" for name in (service, role)),
            f"GRANT SELECT, UPDATE ON stock TO {service}, {role}",
        ],
    )
    access = {"db_port": db.port, "db_name": db.database, "db_password": secret}
    writer = program(
        dice, WRITER.replace("%%row%%", f"{row}"), failed=dice.wording(TEXTS["failed"])
    )
    walker = program(dice, WALKER, key=key, walked=dice.wording(TEXTS["walked"]))
    files = (
        *db.files,
        File(path=place.program, text=writer),
        File(path=jobs.program, text=walker),
        place.settings(port=place.port, db_user=service, **access),
        jobs.settings(port=jobs.port, db_user=role, name=job, **access, **{key: right}),
        *beside.files,
    )
    after = "postgresql.service"
    books = Http(name="an item can be booked", port=place.port, path="/book", contains=sku)
    walks = Script(
        name=f"{job} does its work", script=moves(db.ask("SELECT sum(checked) FROM stock"))
    )
    let_go = db.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in trans%'"
    )
    return Story(
        hosts=(db.host(host, files, (place, jobs), beside.unit),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(books, walks, beside.answers),
        symptoms=(books, walks),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(job=job)),
            f"{jobs.put(key, 0)}; systemctl restart {job}",
        ),
        cure=(Trigger(restart=(jobs.unit,), pause=0.3),),
        collateral=(
            *beside.unharmed,
            Running(name="the database ran on", unit=after, undisturbed=True),
            Running(name=f"{service} ran on", unit=place.unit, undisturbed=True),
            Same(name="the programs", path=jobs.program),
            db.says("all rows are there", "SELECT count(*) FROM stock", f"{count}"),
        ),
        fault=Fault(
            component=(job, jobs.conf),
            mechanism=(
                "idle in transaction",
                "open transaction",
                "lock",
                "locks",
                "never commits",
                "uncommitted",
            ),
            value=(key, f"{key}{jobs.sign}0"),
        ),
        reference=(f"{jobs.put(key, right)}; systemctl restart {job}",),
        relief=(let_go,),
        shortcut=(f"systemctl stop {job}; systemctl disable {job}",),
        traffic=(Traffic(port=place.port, paths=("/book", "/health")),),
    )


SCENARIO = Scenario(
    name="db-idle-in-transaction",
    group="database",
    summary="a job that never commits holds locks on the rows that a service must write",
    draw=draw,
    needs=NEEDS,
)
