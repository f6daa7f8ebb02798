"""The declared list of indexes lost a line, and the job that applies it dropped the index."""

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

TEXTS = texts(__file__)
ROW_COUNT, LOOKUPS_PER_PAGE = 40_000, 1200

SERVICE_PROGRAM = (
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

PAGE_FUNCTION_SQL = """\
CREATE FUNCTION price_page(seed int) RETURNS bigint AS $$
DECLARE total bigint := 0; found bigint;
BEGIN
  FOR n IN 1..{lookups} LOOP
    SELECT {amount} INTO found FROM {table} WHERE {column} = md5((seed + n)::text);
    total := total + found;
  END LOOP;
  RETURN total;
END $$ LANGUAGE plpgsql"""

SYNC_SCRIPT = """\
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


def draw(rng: RandomSource) -> ScenarioSpec:
    service, other = rng.services(2)
    layout, neighbour, host = draw_layout(rng, service), draw_neighbour(rng, other), rng.host()
    table = rng.pick(("prices", "articles", "offers", "tariffs", "positions"))
    column, amount = (
        rng.pick(("code", "ean", "sku", "article_key")),
        rng.pick(("cents", "amount")),
    )
    index, keep, secret = (
        f"{table}_{column}_{rng.token(3)}",
        f"{table}_{amount}_ix",
        rng.token(14),
    )
    seed = rng.number(100, ROW_COUNT - LOOKUPS_PER_PAGE - 100)
    folder = rng.pick(("/srv/schema", "/opt/schema", "/etc/schema", "/srv/dba"))
    declared, tool = f"{folder}/{table}.indexes", f"{folder}/bin/sync-indexes"
    log = f"/var/log/{rng.pick(('schema', 'dba', 'migrations'))}.log"
    db = postgres_server(
        rng,
        [
            f"CREATE TABLE {table} (id int PRIMARY KEY, {column} text, {amount} bigint)",
            f"INSERT INTO {table} SELECT n, md5(n::text), n FROM generate_series(1, {ROW_COUNT}) n",
            f"CREATE INDEX {index} ON {table} ({column})",
            f"CREATE INDEX {keep} ON {table} ({amount})",
            PAGE_FUNCTION_SQL.format(
                lookups=LOOKUPS_PER_PAGE, amount=amount, table=table, column=column
            ),
            f"CREATE ROLE {service} LOGIN PASSWORD '{secret}'",
            f"GRANT SELECT ON {table} TO {service}",
        ],
    )
    line = f"{index} {table} ({column})"
    psql = f"{db.psql} -XAtq -h /run/postgresql -p {db.port} -U postgres -d {db.database} -c"
    dropped = rng.wording(TEXTS["dropped"]).format(name="$name")
    sync = SYNC_SCRIPT.format(list=declared, psql=psql, table=table, log=log, dropped=dropped)
    files = (
        *db.files,
        HostFile(
            path=layout.program,
            text=render_program(rng, SERVICE_PROGRAM, seed=seed, took=rng.wording(TEXTS["took"])),
        ),
        layout.settings(
            port=layout.port,
            db_port=db.port,
            db_name=db.database,
            db_user=service,
            db_password=secret,
        ),
        HostFile(path=declared, text=f"# indexes of {table}\n{line}\n{keep} {table} ({amount})\n"),
        HostFile(path=tool, text=sync, mode=0o755),
        HostFile(path="/etc/cron.d/schema", text=f"5 3 * * * root {tool}\n"),
        *neighbour.files,
    )
    total = sum(range(seed + 1, seed + LOOKUPS_PER_PAGE + 1))
    quick = HttpCheck(
        name="the price page comes in time",
        port=layout.port,
        path="/page",
        contains=f"{total}",
        within=0.8,
    )
    after = "postgresql.service"
    return ScenarioSpec(
        hosts=(db.host(host, files, (layout,), neighbour.unit),),
        alert=draw_alert(rng, TEXTS["alerts"], "P2", service=service, host=host, port=layout.port),
        healthy=(quick, neighbour.answers),
        symptoms=(quick,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(table=table)),
            f"sed -i '/^{index} /d' {declared} && {tool}",
        ),
        cure=(FaultTrigger(cron=tool),),
        collateral=(
            *neighbour.unharmed,
            UnitRunningCheck(name="the database ran on", unit=after, undisturbed=True),
            UnchangedCheck(name="the program", path=layout.program),
            UnchangedCheck(name="the tool", path=tool),
            db.says("all rows are there", f"SELECT count(*) FROM {table}", f"{ROW_COUNT}"),
            db.says("the other index is there", f"SELECT to_regclass('{keep}') IS NULL", "f"),
        ),
        fault=FaultDescription(
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
            db.ask(f"DELETE FROM {table} WHERE id > {ROW_COUNT - 50}"),
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/page", "/health"), pause=2.0),),
    )


SCENARIO = Scenario(
    name="missing-index",
    group="database",
    summary="an index fell out of the declared list and was dropped: a page takes too long",
    draw=draw,
    needs=POSTGRES_NEEDS,
)
