"""Two programs lock the same rows in opposite order: the database ends one of them each time."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
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
from hermes.gym.services.shell_scripts import checked_requests_script, number_grows_script

TEXTS = texts(__file__)

TRANSACTION_SOURCE = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])
pair = sorted((%%one%%, %%two%%), reverse=conf[%%key%%] in ("desc", "descending"))

def touch(session, column, pause):
    try:
        session.ask("BEGIN")
        session.ask(f"UPDATE accounts SET {column} = {column} + 1 WHERE id = {pair[0]}")
        time.sleep(pause)
        session.ask(f"UPDATE accounts SET {column} = {column} + 1 WHERE id = {pair[1]}")
        session.ask("COMMIT")
    except DbError:
        session.ask("ROLLBACK")
        raise

"""
)

REQUEST_PROGRAM = (
    TRANSACTION_SOURCE
    + """\
def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    session = None
    try:
        session = Session(conf)
        touch(session, "settled", 0.08)
    except DbError as error:
        log("ERROR", %%failed%%.format(error=error))
        return 500, {"error": "not settled"}
    finally:
        if session:
            session.close()
    return 200, {"settled": pair}

serve(int(conf["port"]), answer)
"""
)

SWEEP_PROGRAM = (
    TRANSACTION_SOURCE
    + """\
def sweep():
    while True:
        try:
            session = Session(conf, wait=30)
            while True:
                touch(session, "swept", 0.05)
                time.sleep(0.01)
        except DbError as error:
            log("WARN", %%failed%%.format(error=error))
            time.sleep(0.1)

threading.Thread(target=sweep, daemon=True).start()
serve(int(conf["port"]), lambda path: (200, {"status": "ok"}))
"""
)


def draw(rng: RandomSource) -> ScenarioSpec:
    service, job, other = rng.services(3)
    job = f"{job}-{rng.pick(('sweep', 'interest', 'balance', 'clearing', 'fees'))}"
    layout, jobs, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, job),
        draw_neighbour(rng, other),
    )
    host, role, secret = rng.host(), job.replace("-", "_"), rng.token(14)
    key = rng.pick(("lock_order", "row_order", "sort", "account_order", "update_order"))
    right, wrong = rng.pick((("asc", "desc"), ("ascending", "descending"), ("desc", "asc")))
    one, two = rng.some(range(1, 60), 2)
    db = postgres_server(
        rng,
        [
            "CREATE TABLE accounts (id int PRIMARY KEY, settled bigint, swept bigint)",
            "INSERT INTO accounts SELECT n, 0, 0 FROM generate_series(1, 60) n",
            *(f"CREATE ROLE {name} LOGIN PASSWORD '{secret}'" for name in (service, role)),
            f"GRANT SELECT, UPDATE ON accounts TO {service}, {role}",
            f"ALTER ROLE {role} SET deadlock_timeout = '20s'",
        ],
        deadlock_timeout="100ms",
        log_lock_waits="on",
    )
    access = {"db_port": db.port, "db_name": db.database, "db_password": secret, key: right}
    words = {"key": key, "one": one, "two": two, "failed": rng.wording(TEXTS["failed"])}
    faulty = rng.pick((layout, jobs))
    files = (
        *db.files,
        HostFile(path=layout.program, text=render_program(rng, REQUEST_PROGRAM, **words)),
        HostFile(path=jobs.program, text=render_program(rng, SWEEP_PROGRAM, **words)),
        layout.settings(port=layout.port, db_user=service, **access),
        jobs.settings(port=jobs.port, db_user=role, name=job, **access),
        *neighbour.files,
    )
    after = "postgresql.service"
    requests_work = ScriptCheck(
        name="three settlements go through",
        script=checked_requests_script(layout.port, "/settle", 3, wanted='"settled"'),
    )
    sweep_works = ScriptCheck(
        name=f"{job} does its work",
        script=number_grows_script(db.ask("SELECT sum(swept) FROM accounts")),
    )
    return ScenarioSpec(
        hosts=(db.host(host, files, (layout, jobs), neighbour.unit),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(requests_work, sweep_works, neighbour.answers),
        symptoms=(requests_work,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(job=faulty.name, value=wrong)),
            f"{faulty.put(key, wrong)}; systemctl restart {faulty.name}",
        ),
        cure=(FaultTrigger(restart=(layout.unit, jobs.unit), pause=0.2),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="the database ran on", unit=after, undisturbed=True),
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name="the job", path=jobs.program),
            db.says("all accounts are there", "SELECT count(*) FROM accounts", "60"),
        ),
        fault=FaultDescription(
            component=(faulty.name, faulty.conf),
            mechanism=("deadlock", "deadlocks", "lock order", "opposite order", "order of locks"),
            value=(key, wrong),
        ),
        reference=(f"{faulty.put(key, right)}; systemctl restart {faulty.name}",),
        relief=(f"systemctl restart {service}; systemctl restart {job}",),
        shortcut=(f"systemctl stop {job}; systemctl disable {job}",),
        traffic=(TrafficSpec(port=layout.port, paths=("/settle", "/health"), pause=0.8),),
    )


SCENARIO = Scenario(
    name="db-deadlock",
    group="database",
    summary="a service and a job lock the same rows in opposite order since one was changed",
    draw=draw,
    needs=POSTGRES_NEEDS,
)
