"""One service may open more sessions than the database allows, and uses up all of them."""

from hermes.gym.scenario_builder import (
    PG_CLIENT,
    POSTGRES_NEEDS,
    ScenarioBuilder,
    build_scenario,
    checked_requests_script,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, reader = build.draw_services(2)
    key = rng.pick(("pool_max", "db_sessions", "max_pool", "connections_max"))
    right, wrong, slots = rng.number(2, 4), rng.pick((40, 50, 64, 80, 100)), rng.number(12, 16)
    items = [f"{rng.word()}-{rng.token(5)}" for _ in range(rng.number(5, 12))]
    secret = rng.token(14)
    rows = ", ".join(f"({n}, '{each}')" for n, each in enumerate(items))
    db = build.postgres(
        [
            "CREATE TABLE items (id int PRIMARY KEY, sku text NOT NULL)",
            f"INSERT INTO items VALUES {rows}",
            *(f"CREATE ROLE {n} LOGIN PASSWORD '{secret}'" for n in (app.name, reader.name)),
            f"GRANT SELECT ON items TO {app.name}, {reader.name}",
        ],
        max_connections=slots,
    )
    refused, access = build.wording("refused"), db.access | {"db_password": secret}
    build.start(
        app,
        PG_CLIENT + build.source("leaking.py.in"),
        key=key,
        refused=refused,
        opened=build.wording("opened"),
    )
    build.start(reader, PG_CLIENT + build.source("client.py.in"), refused=refused)
    build.settings(app, port=app.port, db_user=app.name, **access, **{key: right})
    build.settings(reader, port=reader.port, db_user=reader.name, **access)

    counted = reader.http(f"{reader.name} can count", "/count", f'"{len(items)}"')
    few = db.says(
        "the service keeps to few sessions",
        f"SELECT count(*) <= {right + 2} FROM pg_stat_activity WHERE usename = '{app.name}'",
        "t",
    )
    flood = checked_requests_script(app.port, "/items", slots + 6)
    build.alert("P1", reader)
    build.healthy(app.http("the items are listed", "/items", items[0]))
    build.symptoms(counted, few)
    build.inject(
        build.changes(build.wording("told", service=app.name, value=wrong)),
        f"{app.put(key, wrong)}; {app.restart}",
        flood,
    )
    build.trigger(restart=(app.unit,))
    build.trigger(script=flood)
    build.collateral(
        db.ran_on,
        reader.runs(f"{reader.name} runs"),
        ("the program", app.program),
        (f"the settings of {reader.name}", reader.conf),
        db.says("all rows are there", "SELECT count(*) FROM items", f"{len(items)}"),
    )
    build.fault(
        component=(app.name, app.conf),
        mechanism="pool, leak, leaks, too many, exhausted, exhausts, connection slots",
        value=(key, f"{wrong}"),
    )
    build.responses(
        reference=f"{app.put(key, right)}; {app.restart}",
        relief=app.restart,
        shortcut="sed -i 's/^max_connections.*/max_connections = 300/' "
        f"{db.conf}/postgresql.conf; systemctl restart postgresql",
    )
    build.traffic("/items", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "database",
    "the pool of one service is set larger than the database: others get no session",
    needs=POSTGRES_NEEDS,
)
