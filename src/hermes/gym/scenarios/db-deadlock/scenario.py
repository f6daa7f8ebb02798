"""Two programs take the same rows in opposite order: the database ends one of them each time."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.pg_client import PG_CLIENT
from hermes.gym.parts.pg_server import NEEDS, postgres
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.parts.shell_lines import ask_often, moves
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Running, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)

PAIR = (
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

SETTLES = (
    PAIR
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

SWEEPS = (
    PAIR
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


def draw(dice: Dice) -> Story:
    service, job, other = dice.services(3)
    job = f"{job}-{dice.pick(('sweep', 'interest', 'balance', 'clearing', 'fees'))}"
    place, jobs, beside = premises(dice, service), premises(dice, job), neighbour(dice, other)
    host, role, secret = dice.host(), job.replace("-", "_"), dice.token(14)
    key = dice.pick(("lock_order", "row_order", "sort", "account_order", "update_order"))
    right, wrong = dice.pick((("asc", "desc"), ("ascending", "descending"), ("desc", "asc")))
    one, two = dice.some(range(1, 60), 2)
    db = postgres(
        dice,
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
    words = {"key": key, "one": one, "two": two, "failed": dice.wording(TEXTS["failed"])}
    guilty = dice.pick((place, jobs))
    files = (
        *db.files,
        File(path=place.program, text=program(dice, SETTLES, **words)),
        File(path=jobs.program, text=program(dice, SWEEPS, **words)),
        place.settings(port=place.port, db_user=service, **access),
        jobs.settings(port=jobs.port, db_user=role, name=job, **access),
        *beside.files,
    )
    after = "postgresql.service"
    settles = Script(
        name="three settlements go through",
        script=ask_often(place.port, "/settle", 3, wanted='"settled"'),
    )
    sweeps = Script(
        name=f"{job} does its work", script=moves(db.ask("SELECT sum(swept) FROM accounts"))
    )
    return Story(
        hosts=(db.host(host, files, (place, jobs), beside.unit),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(settles, sweeps, beside.answers),
        symptoms=(settles,),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(job=guilty.name, value=wrong)),
            f"{guilty.put(key, wrong)}; systemctl restart {guilty.name}",
        ),
        cure=(Trigger(restart=(place.unit, jobs.unit), pause=0.2),),
        collateral=(
            *beside.unharmed,
            Running(name="the database ran on", unit=after, undisturbed=True),
            Same(name="the program", path=place.program),
            Same(name="the job", path=jobs.program),
            db.says("all accounts are there", "SELECT count(*) FROM accounts", "60"),
        ),
        fault=Fault(
            component=(guilty.name, guilty.conf),
            mechanism=("deadlock", "deadlocks", "lock order", "opposite order", "order of locks"),
            value=(key, wrong),
        ),
        reference=(f"{guilty.put(key, right)}; systemctl restart {guilty.name}",),
        relief=(f"systemctl restart {service}; systemctl restart {job}",),
        shortcut=(f"systemctl stop {job}; systemctl disable {job}",),
        traffic=(Traffic(port=place.port, paths=("/settle", "/health"), pause=0.8),),
    )


SCENARIO = Scenario(
    name="db-deadlock",
    group="database",
    summary="a service and a job lock the same rows in opposite order since one was changed",
    draw=draw,
    needs=NEEDS,
)
