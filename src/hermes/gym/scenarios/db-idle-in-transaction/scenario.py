"""A job changes rows and leaves its transaction open: other writers wait for it."""

from hermes.gym.scenario_builder import (
    PG_CLIENT,
    POSTGRES_NEEDS,
    ScenarioBuilder,
    ScriptCheck,
    build_scenario,
    number_grows_script,
)

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


JOB_SUFFIXES = ("audit", "recount", "backfill", "sync", "rollup")


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, job = build.draw_services(2, job_suffixes=JOB_SUFFIXES)
    role = job.name.replace("-", "_")
    key = rng.pick(("commit_every", "batch", "rows_per_commit", "commit_after"))
    right, count, secret = rng.number(2, 4), rng.number(8, 14), rng.token(14)
    sku, row = rng.token(), rng.number(2, 6)
    names = [sku if n == row else f"{rng.word()}-{n}" for n in range(1, count + 1)]
    rows = ", ".join(f"({n}, '{each}', 0, 0)" for n, each in enumerate(names, 1))
    db = build.postgres(
        [
            "CREATE TABLE stock (id int PRIMARY KEY, sku text, booked int, checked bigint)",
            f"INSERT INTO stock VALUES {rows}",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'" for name in (app.name, role)),
            f"GRANT SELECT, UPDATE ON stock TO {app.name}, {role}",
        ]
    )
    access = db.access | {"db_password": secret}
    build.start(app, WRITER_PROGRAM.replace("%%row%%", f"{row}"), failed=build.wording("failed"))
    build.start(job, READER_PROGRAM, key=key, walked=build.wording("walked"))
    build.settings(app, port=app.port, db_user=app.name, **access)
    build.settings(job, port=job.port, db_user=role, name=job.name, **access, **{key: right})

    build.alert("P1")
    build.symptoms(
        app.http("an item can be booked", "/book", sku),
        ScriptCheck(
            name=f"{job.name} does its work",
            script=number_grows_script(db.ask("SELECT sum(checked) FROM stock")),
        ),
    )
    build.inject(
        build.changes(build.wording("told", job=job.name)), f"{job.put(key, 0)}; {job.restart}"
    )
    build.trigger(restart=(job.unit,), pause=0.3)
    build.collateral(
        db.ran_on,
        app.undisturbed(f"{app.name} ran on"),
        ("the programs", job.program),
        db.says("all rows are there", "SELECT count(*) FROM stock", f"{count}"),
    )
    build.fault(
        component=(job.name, job.conf),
        mechanism="idle in transaction, open transaction, lock, locks, never commits, uncommitted",
        value=(key, f"{key}{job.sign}0"),
    )
    idle = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE state LIKE 'idle in trans%'"
    )
    build.responses(
        reference=f"{job.put(key, right)}; {job.restart}",
        relief=db.ask(idle),
        shortcut=f"systemctl stop {job.name}; systemctl disable {job.name}",
    )
    build.traffic("/book", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "database",
    "a job that never commits holds locks on the rows that a service must write",
    needs=POSTGRES_NEEDS,
)
