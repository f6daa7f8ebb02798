"""The declared list of indexes lost a line; the job that keeps to it dropped the index."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.pg_client import PG_CLIENT
from hermes.gym.parts.pg_server import NEEDS, postgres
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)
ROWS, LOOKUPS = 40_000, 1200

APP = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    started, session = time.monotonic(), None
    try:
        session = Session(conf)
        session.ask("SET statement_timeout = '1200ms'")
        rows = session.ask("SELECT price_page(%%seed%%)")
    except DbError as error:
        log("ERROR", f"no page: {error}")
        return 503, {"error": "database"}
    finally:
        if session:
            session.close()
    log("INFO", %%took%%.format(ms=round((time.monotonic() - started) * 1000)))
    return 200, {"total": rows[0][0]}

serve(int(conf["port"]), answer)
"""
)

PAGE = """\
CREATE FUNCTION price_page(seed int) RETURNS bigint AS $$
DECLARE total bigint := 0; found bigint;
BEGIN
  FOR n IN 1..{lookups} LOOP
    SELECT {amount} INTO found FROM {table} WHERE {column} = md5((seed + n)::text);
    total := total + found;
  END LOOP;
  RETURN total;
END $$ LANGUAGE plpgsql"""

SYNC = """\
#!/bin/bash
# Brings the indexes in line with {list}: what is declared is made, what is not is dropped.
ask() {{ {psql} "$1"; }}
for name in $(ask "SELECT indexrelid::regclass FROM pg_index WHERE indrelid = '{table}'::regclass \
AND NOT indisprimary"); do
  grep -q "^$name " {list} && continue
  ask "DROP INDEX $name" && echo "$(date '+%F %T') {dropped}" >> {log}
done
grep -v '^#' {list} | while read -r name on; do
  ask "CREATE INDEX IF NOT EXISTS $name ON $on" 2>/dev/null
done
"""


def draw(dice: Dice) -> Story:
    service, other = dice.services(2)
    place, beside, host = premises(dice, service), neighbour(dice, other), dice.host()
    table = dice.pick(("prices", "articles", "offers", "tariffs", "positions"))
    column, amount = (
        dice.pick(("code", "ean", "sku", "article_key")),
        dice.pick(("cents", "amount")),
    )
    index, keep, secret = (
        f"{table}_{column}_{dice.token(3)}",
        f"{table}_{amount}_ix",
        dice.token(14),
    )
    seed = dice.number(100, ROWS - LOOKUPS - 100)
    folder = dice.pick(("/srv/schema", "/opt/schema", "/etc/schema", "/srv/dba"))
    declared, tool = f"{folder}/{table}.indexes", f"{folder}/bin/sync-indexes"
    log = f"/var/log/{dice.pick(('schema', 'dba', 'migrations'))}.log"
    db = postgres(
        dice,
        [
            f"CREATE TABLE {table} (id int PRIMARY KEY, {column} text, {amount} bigint)",
            f"INSERT INTO {table} SELECT n, md5(n::text), n FROM generate_series(1, {ROWS}) n",
            f"CREATE INDEX {index} ON {table} ({column})",
            f"CREATE INDEX {keep} ON {table} ({amount})",
            PAGE.format(lookups=LOOKUPS, amount=amount, table=table, column=column),
            f"CREATE ROLE {service} LOGIN PASSWORD '{secret}'",
            f"GRANT SELECT ON {table} TO {service}",
        ],
    )
    line = f"{index} {table} ({column})"
    psql = f"{db.psql} -XAtq -h /run/postgresql -p {db.port} -U postgres -d {db.database} -c"
    dropped = dice.wording(TEXTS["dropped"]).format(name="$name")
    sync = SYNC.format(list=declared, psql=psql, table=table, log=log, dropped=dropped)
    files = (
        *db.files,
        File(
            path=place.program, text=program(dice, APP, seed=seed, took=dice.wording(TEXTS["took"]))
        ),
        place.settings(
            port=place.port,
            db_port=db.port,
            db_name=db.database,
            db_user=service,
            db_password=secret,
        ),
        File(path=declared, text=f"# indexes of {table}\n{line}\n{keep} {table} ({amount})\n"),
        File(path=tool, text=sync, mode=0o755),
        File(path="/etc/cron.d/schema", text=f"5 3 * * * root {tool}\n"),
        *beside.files,
    )
    total = sum(range(seed + 1, seed + LOOKUPS + 1))
    quick = Http(
        name="the price page comes in time",
        port=place.port,
        path="/page",
        contains=f"{total}",
        within=0.8,
    )
    after = "postgresql.service"
    return Story(
        hosts=(db.host(host, files, (place,), beside.unit),),
        alert=alert(dice, TEXTS["alerts"], "P2", service=service, host=host, port=place.port),
        healthy=(quick, beside.answers),
        symptoms=(quick,),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(table=table)),
            f"sed -i '/^{index} /d' {declared} && {tool}",
        ),
        cure=(Trigger(cron=tool),),
        collateral=(
            *beside.unharmed,
            Running(name="the database ran on", unit=after, undisturbed=True),
            Same(name="the program", path=place.program),
            Same(name="the tool", path=tool),
            db.says("all rows are there", f"SELECT count(*) FROM {table}", f"{ROWS}"),
            db.says("the other index is there", f"SELECT to_regclass('{keep}') IS NULL", "f"),
        ),
        fault=Fault(
            component=(table, declared, db.database),
            mechanism=(
                "missing index",
                "index is missing",
                "dropped",
                "sequential scan",
                "seq scan",
                "no index",
            ),
            value=(index, column),
        ),
        reference=(f"echo '{line}' >> {declared}; {tool}",),
        relief=(db.ask(f"CREATE INDEX {index} ON {line.partition(' ')[2]}"),),
        shortcut=(
            f"echo '{line}' >> {declared}; {tool}",
            db.ask(f"DELETE FROM {table} WHERE id > {ROWS - 50}"),
        ),
        traffic=(Traffic(port=place.port, paths=("/page", "/health"), pause=2.0),),
    )


SCENARIO = Scenario(
    name="missing-index",
    group="database",
    summary="an index fell out of the declared list and was dropped: a page takes too long",
    draw=draw,
    needs=NEEDS,
)
