"""The password of a database role was rotated; one of its two services has the old one."""

from hermes.gym.scenario_builder import (
    PG_CLIENT,
    POSTGRES_NEEDS,
    ScenarioBuilder,
    build_scenario,
    script_check,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, reader = build.draw_services(2)
    role = f"{rng.word()}_{rng.pick(('app', 'rw', 'svc', 'user'))}"
    old, new, item = rng.token(16), rng.token(16), rng.token()
    folder = rng.pick(("/etc/secrets", "/etc/vault", "/srv/secrets", "/etc/credentials"))
    vault = f"{folder}/{rng.pick(('roles', 'current', 'db', 'postgres'))}"
    tool = f"/opt/{rng.pick(('rotate', 'secrets', 'keeper', 'credentials'))}/enforce"
    log = f"/var/log/{rng.pick(('rotation', 'secrets', 'credentials'))}.log"
    db = build.postgres(
        [
            "CREATE TABLE items (id int PRIMARY KEY, sku text NOT NULL)",
            f"INSERT INTO items VALUES (1, '{item}'), (2, '{rng.word()}')",
            f"CREATE ROLE {role} LOGIN PASSWORD '{old}'",
            f"GRANT SELECT ON items TO {role}",
        ],
        password_encryption=rng.pick(("'md5'", "'scram-sha-256'")),
    )
    source = build.render(
        PG_CLIENT + build.source("service.py.in"), refused=build.wording("refused")
    )
    for each in (app, reader):
        build.file(each.program, source)
        build.unit(each)
    access = db.access | {"db_user": role}
    build.settings(app, port=app.port, **access, db_password=old)
    build.settings(reader, port=reader.port, **access, db_password_file=f"{vault}/{role}")
    build.file(f"{vault}/{role}", f"{old}\n", mode=0o600)
    psql = f"{db.psql} -Xq -h /run/postgresql -p {db.port} -U postgres -c"
    line = build.wording("rotated", role="$role")
    build.script(
        tool, build.source("enforce.sh.in").format(vault=vault, log=log, line=line, psql=psql)
    )
    build.file("/etc/cron.d/rotation", f"17 */6 * * * root {tool}\n")

    read = reader.http(f"{reader.name} reads them too", "/items", item)
    refused = script_check(
        "a wrong password is refused",
        f"! PGPASSWORD={rng.token(9)} {db.psql} -X -h 127.0.0.1 -p {db.port} "
        f"-U {role} -d {db.database} -c 'SELECT 1' 2>&1",
        contains="password authentication failed",
    )
    build.alert("P1")
    build.symptoms(app.http("the items are listed", "/items", item))
    build.healthy(read, refused)
    build.inject(
        build.changes(build.wording("told", role=role)), f"echo {new} > {vault}/{role} && {tool}"
    )
    build.trigger(cron=tool)
    build.trigger(restart=(app.unit,))
    build.collateral(
        read,
        refused,
        db.ran_on,
        ("who may come in", f"{db.conf}/pg_hba.conf"),
        ("the rotation", tool),
        db.says("all rows are there", "SELECT count(*) FROM items", "2"),
    )
    build.fault(
        component=(app.name, app.conf, role),
        mechanism="password, rotated, rotation, authentication failed, credential, credentials",
        value=("db_password", role, vault),
    )
    build.responses(
        reference=(app.put("db_password", f"'$(cat {vault}/{role})'"), app.restart),
        relief=db.ask(f"ALTER ROLE {role} PASSWORD '{old}'"),
        shortcut=f"sed -i 's/password$/trust/' {db.conf}/pg_hba.conf; systemctl reload postgresql",
    )
    build.traffic("/items", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "database",
    "a role's password was rotated, the stored one of a service no longer fits",
    needs=POSTGRES_NEEDS,
)
