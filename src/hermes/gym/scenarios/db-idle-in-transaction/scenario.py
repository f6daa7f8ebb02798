"""A job changes rows and leaves its transaction open: other writers wait for it."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HttpCheck,
    ScenarioSpec,
    ScriptCheck,
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
from hermes.gym.services.shell_scripts import number_grows_script

TEXTS = texts(__file__)

WRITER_PROGRAM = (
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

READER_PROGRAM = (
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


def draw(rng: RandomSource) -> ScenarioSpec:
    service, job, other = rng.services(3)
    job = f"{job}-{rng.pick(('audit', 'recount', 'backfill', 'sync', 'rollup'))}"
    layout, jobs, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, job),
        draw_neighbour(rng, other),
    )
    host, role = rng.host(), job.replace("-", "_")
    key = rng.pick(("commit_every", "batch", "rows_per_commit", "commit_after"))
    right, count, secret = rng.number(2, 4), rng.number(8, 14), rng.token(14)
    sku, row = rng.token(), rng.number(2, 6)
    names = [sku if n == row else f"{rng.word()}-{n}" for n in range(1, count + 1)]
    rows = ", ".join(f"({n}, '{each}', 0, 0)" for n, each in enumerate(names, 1))
    db = postgres_server(
        rng,
        [
            "CREATE TABLE stock (id int PRIMARY KEY, sku text, booked int, checked bigint)",
            f"INSERT INTO stock VALUES {rows}",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'" for name in (service, role)),
            f"GRANT SELECT, UPDATE ON stock TO {service}, {role}",
        ],
    )
    access = {"db_port": db.port, "db_name": db.database, "db_password": secret}
    writer = render_program(
        rng, WRITER_PROGRAM.replace("%%row%%", f"{row}"), failed=rng.wording(TEXTS["failed"])
    )
    reader_program = render_program(
        rng, READER_PROGRAM, key=key, walked=rng.wording(TEXTS["walked"])
    )
    files = (
        *db.files,
        HostFile(path=layout.program, text=writer),
        HostFile(path=jobs.program, text=reader_program),
        layout.settings(port=layout.port, db_user=service, **access),
        jobs.settings(port=jobs.port, db_user=role, name=job, **access, **{key: right}),
        *neighbour.files,
    )
    after = "postgresql.service"
    booking_works = HttpCheck(
        name="an item can be booked", port=layout.port, path="/book", contains=sku
    )
    reader_works = ScriptCheck(
        name=f"{job} does its work",
        script=number_grows_script(db.ask("SELECT sum(checked) FROM stock")),
    )
    end_sessions = db.ask(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in trans%'"
    )
    return ScenarioSpec(
        hosts=(db.host(host, files, (layout, jobs), neighbour.unit),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(booking_works, reader_works, neighbour.answers),
        symptoms=(booking_works, reader_works),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(job=job)),
            f"{jobs.put(key, 0)}; systemctl restart {job}",
        ),
        cure=(FaultTrigger(restart=(jobs.unit,), pause=0.3),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="the database ran on", unit=after, undisturbed=True),
            UnitRunningCheck(name=f"{service} ran on", unit=layout.unit, undisturbed=True),
            UnchangedCheck(name="the programs", path=jobs.program),
            db.says("all rows are there", "SELECT count(*) FROM stock", f"{count}"),
        ),
        fault=FaultDescription(
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
        relief=(end_sessions,),
        shortcut=(f"systemctl stop {job}; systemctl disable {job}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/book", "/health")),),
    )


SCENARIO = Scenario(
    name="db-idle-in-transaction",
    group="database",
    summary="a job that never commits holds locks on the rows that a service must write",
    draw=draw,
    needs=POSTGRES_NEEDS,
)
