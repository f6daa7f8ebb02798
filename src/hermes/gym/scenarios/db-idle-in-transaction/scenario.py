"""A job changes rows and leaves its transaction open: other writers wait for it."""

from hermes.gym.scenario_builder import (
    PG_CLIENT,
    POSTGRES_NEEDS,
    ScenarioBuilder,
    build_scenario,
    number_grows_script,
    script_check,
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
    build.start(
        app, PG_CLIENT + build.source("writer.py.in", row=row), failed=build.wording("failed")
    )
    build.start(
        job, PG_CLIENT + build.source("reader.py.in"), key=key, walked=build.wording("walked")
    )
    build.settings(app, port=app.port, db_user=app.name, **access)
    build.settings(job, port=job.port, db_user=role, name=job.name, **access, **{key: right})

    build.alert("P1")
    build.symptoms(
        app.http("an item can be booked", "/book", sku),
        script_check(
            f"{job.name} does its work",
            number_grows_script(db.ask("SELECT sum(checked) FROM stock")),
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
        futile=(
            db.ask(idle),
            f"systemctl stop {job.name}; systemctl disable {job.name}",
        ),
    )
    build.traffic("/book", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "database",
    "a job that never commits holds locks on the rows that a service must write",
    needs=POSTGRES_NEEDS,
)
