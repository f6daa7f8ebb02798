"""Two programs lock the same rows in opposite order: the database ends one of them each time."""

from hermes.gym.scenario_builder import (
    PG_CLIENT,
    POSTGRES_NEEDS,
    ScenarioBuilder,
    build_scenario,
    checked_requests_script,
    number_grows_script,
    script_check,
)

JOB_SUFFIXES = ("sweep", "interest", "balance", "clearing", "fees")


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, job = build.draw_services(2, job_suffixes=JOB_SUFFIXES)
    role, secret = job.name.replace("-", "_"), rng.token(14)
    key = rng.pick(("lock_order", "row_order", "sort", "account_order", "update_order"))
    right, wrong = rng.pick((("asc", "desc"), ("ascending", "descending"), ("desc", "asc")))
    one, two = rng.some(range(1, 60), 2)
    db = build.postgres(
        [
            "CREATE TABLE accounts (id int PRIMARY KEY, settled bigint, swept bigint)",
            "INSERT INTO accounts SELECT n, 0, 0 FROM generate_series(1, 60) n",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'" for name in (app.name, role)),
            f"GRANT SELECT, UPDATE ON accounts TO {app.name}, {role}",
            f"ALTER ROLE {role} SET deadlock_timeout = '20s'",
        ],
        deadlock_timeout="100ms",
        log_lock_waits="on",
    )
    access = db.access | {"db_password": secret, key: right}
    words = {"key": key, "one": one, "two": two, "failed": build.wording("failed")}
    faulty = rng.pick((app, job))
    source = PG_CLIENT + build.source("transaction.py.in")
    for each, body in ((app, "request.py.in"), (job, "sweep.py.in")):
        build.program(each, source + build.source(body), **words)
        build.unit(each)
    build.settings(app, port=app.port, db_user=app.name, **access)
    build.settings(job, port=job.port, db_user=role, name=job.name, **access)

    build.alert("P1")
    build.symptoms(
        script_check(
            "three settlements go through",
            checked_requests_script(app.port, "/settle", 3, wanted='"settled"'),
        )
    )
    build.healthy(
        script_check(
            f"{job.name} does its work",
            number_grows_script(db.ask("SELECT sum(swept) FROM accounts")),
        )
    )
    build.inject(
        build.changes(build.wording("told", job=faulty.name, value=wrong)),
        f"{faulty.put(key, wrong)}; {faulty.restart}",
    )
    build.trigger(restart=(app.unit, job.unit), pause=0.2)
    build.collateral(
        db.ran_on,
        ("the program", app.program),
        ("the job", job.program),
        db.says("all accounts are there", "SELECT count(*) FROM accounts", "60"),
    )
    build.fault(
        component=(faulty.name, faulty.conf),
        mechanism="deadlock, deadlocks, lock order, opposite order, order of locks",
        value=(key, wrong),
    )
    build.responses(
        reference=f"{faulty.put(key, right)}; {faulty.restart}",
        futile=(
            f"{app.restart}; {job.restart}",
            f"systemctl stop {job.name}; systemctl disable {job.name}",
        ),
    )
    build.traffic("/settle", "/health", pause=0.8)


SCENARIO = build_scenario(
    __file__,
    draw,
    "database",
    "a service and a job lock the same rows in opposite order since one was changed",
    needs=POSTGRES_NEEDS,
)
