"""The declared list of indexes lost a line, and the job that applies it dropped the index."""

from hermes.gym.scenario_builder import (
    PG_CLIENT,
    POSTGRES_NEEDS,
    HttpCheck,
    ScenarioBuilder,
    build_scenario,
)

ROW_COUNT, LOOKUPS_PER_PAGE = 40_000, 1200


ROW_COUNT, LOOKUPS_PER_PAGE = 40_000, 1200


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    table = rng.pick(("prices", "articles", "offers", "tariffs", "positions"))
    column = rng.pick(("code", "ean", "sku", "article_key"))
    amount = rng.pick(("cents", "amount"))
    index, keep = f"{table}_{column}_{rng.token(3)}", f"{table}_{amount}_ix"
    secret, seed = rng.token(14), rng.number(100, ROW_COUNT - LOOKUPS_PER_PAGE - 100)
    folder = rng.pick(("/srv/schema", "/opt/schema", "/etc/schema", "/srv/dba"))
    declared, tool = f"{folder}/{table}.indexes", f"{folder}/bin/sync-indexes"
    log = f"/var/log/{rng.pick(('schema', 'dba', 'migrations'))}.log"
    facts = {"lookups": LOOKUPS_PER_PAGE, "amount": amount, "table": table, "column": column}
    db = build.postgres(
        [
            f"CREATE TABLE {table} (id int PRIMARY KEY, {column} text, {amount} bigint)",
            f"INSERT INTO {table} SELECT n, md5(n::text), n FROM generate_series(1, {ROW_COUNT}) n",
            f"CREATE INDEX {index} ON {table} ({column})",
            f"CREATE INDEX {keep} ON {table} ({amount})",
            build.source("page-function.sql.in").format(**facts),
            f"CREATE ROLE {app.name} LOGIN PASSWORD '{secret}'",
            f"GRANT SELECT ON {table} TO {app.name}",
        ],
    )
    line = f"{index} {table} ({column})"
    psql = f"{db.psql} -XAtq -h /run/postgresql -p {db.port} -U postgres -d {db.database} -c"
    dropped = build.wording("dropped", name="$name")
    sync = build.source("sync.sh.in").format(
        list=declared, psql=psql, table=table, log=log, dropped=dropped
    )
    build.start(
        app, PG_CLIENT + build.source("service.py.in"), seed=seed, took=build.wording("took")
    )
    build.settings(app, port=app.port, **db.access, db_user=app.name, db_password=secret)
    build.file(declared, f"# indexes of {table}\n{line}\n{keep} {table} ({amount})\n")
    build.script(tool, sync)
    build.file("/etc/cron.d/schema", f"5 3 * * * root {tool}\n")

    build.alert("P2")
    build.symptoms(
        HttpCheck(
            name="the price page comes in time",
            port=app.port,
            path="/page",
            contains=f"{sum(range(seed + 1, seed + LOOKUPS_PER_PAGE + 1))}",
            within=0.8,
        )
    )
    build.inject(
        build.changes(build.wording("told", table=table)),
        f"sed -i '/^{index} /d' {declared} && {tool}",
    )
    build.trigger(cron=tool)
    build.collateral(
        db.ran_on,
        ("the program", app.program),
        ("the tool", tool),
        db.says("all rows are there", f"SELECT count(*) FROM {table}", f"{ROW_COUNT}"),
        db.says("the other index is there", f"SELECT to_regclass('{keep}') IS NULL", "f"),
    )
    build.fault(
        component=(table, declared, db.database),
        mechanism="missing index, index is missing, dropped, sequential scan, seq scan, no index",
        value=(index, column),
    )
    fix = f"echo '{line}' >> {declared}; {tool}"
    build.responses(
        reference=fix,
        relief=db.ask(f"CREATE INDEX {index} ON {line.partition(' ')[2]}"),
        shortcut=(fix, db.ask(f"DELETE FROM {table} WHERE id > {ROW_COUNT - 50}")),
    )
    build.traffic("/page", "/health", pause=2.0)


SCENARIO = build_scenario(
    __file__,
    draw,
    "database",
    "an index fell out of the declared list and was dropped: a page takes too long",
    needs=POSTGRES_NEEDS,
)
