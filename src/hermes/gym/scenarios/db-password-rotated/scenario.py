"""The password of a database role was rotated; one of its two services has the old one."""

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HttpCheck,
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

TEXTS = texts(__file__)

SERVICE_PROGRAM = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if "db_password_file" in conf:
        conf["db_password"] = open(conf["db_password_file"]).read().strip()
    try:
        session = Session(conf)
        rows = session.ask("SELECT sku FROM items ORDER BY id")
        session.close()
    except DbError as error:
        log("ERROR", %%refused%%.format(error=error))
        return 503, {"error": "database"}
    return 200, {"items": [row[0] for row in rows]}

serve(int(conf["port"]), answer)
"""
)

ENFORCE_SCRIPT = """\
#!/bin/bash
# Sees to it that every role has the password that lies in {vault}.
for file in {vault}/*; do
  role=${{file##*/}}
  {psql} "ALTER ROLE $role PASSWORD '$(cat $file)'" && echo "$(date '+%F %T') {line}" >> {log}
done
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, reader, other = rng.services(3)
    layout, readers, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, reader),
        draw_neighbour(rng, other),
    )
    host, role = rng.host(), f"{rng.word()}_{rng.pick(('app', 'rw', 'svc', 'user'))}"
    old, new, item = rng.token(16), rng.token(16), rng.token()
    folder = rng.pick(("/etc/secrets", "/etc/vault", "/srv/secrets", "/etc/credentials"))
    vault = f"{folder}/{rng.pick(('roles', 'current', 'db', 'postgres'))}"
    tool = f"/opt/{rng.pick(('rotate', 'secrets', 'keeper', 'credentials'))}/enforce"
    log = f"/var/log/{rng.pick(('rotation', 'secrets', 'credentials'))}.log"
    db = postgres_server(
        rng,
        [
            "CREATE TABLE items (id int PRIMARY KEY, sku text NOT NULL)",
            f"INSERT INTO items VALUES (1, '{item}'), (2, '{rng.word()}')",
            f"CREATE ROLE {role} LOGIN PASSWORD '{old}'",
            f"GRANT SELECT ON items TO {role}",
        ],
        password_encryption=rng.pick(("'md5'", "'scram-sha-256'")),
    )
    access = {"db_port": db.port, "db_name": db.database, "db_user": role}
    source = render_program(rng, SERVICE_PROGRAM, refused=rng.wording(TEXTS["refused"]))
    enforce = ENFORCE_SCRIPT.format(
        vault=vault,
        log=log,
        line=rng.wording(TEXTS["rotated"]).format(role="$role"),
        psql=f"{db.psql} -Xq -h /run/postgresql -p {db.port} -U postgres -c",
    )
    files = (
        *db.files,
        *(HostFile(path=each.program, text=source) for each in (layout, readers)),
        layout.settings(port=layout.port, **access, db_password=old),
        readers.settings(port=readers.port, **access, db_password_file=f"{vault}/{role}"),
        HostFile(path=f"{vault}/{role}", text=f"{old}\n", mode=0o600),
        HostFile(path=tool, text=enforce, mode=0o755),
        HostFile(path="/etc/cron.d/rotation", text=f"17 */6 * * * root {tool}\n"),
        *neighbour.files,
    )
    after = "postgresql.service"
    listed = HttpCheck(name="the items are listed", port=layout.port, path="/items", contains=item)
    read = HttpCheck(
        name=f"{reader} reads them too", port=readers.port, path="/items", contains=item
    )
    refused = ScriptCheck(
        name="a wrong password is refused",
        script=f"! PGPASSWORD={rng.token(9)} {db.psql} -X -h 127.0.0.1 -p {db.port} "
        f"-U {role} -d {db.database} -c 'SELECT 1' 2>&1",
        contains="password authentication failed",
    )
    return ScenarioSpec(
        hosts=(db.host(host, files, (layout, readers), neighbour.unit),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(listed, read, refused, neighbour.answers),
        symptoms=(listed,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(role=role)),
            f"echo {new} > {vault}/{role} && {tool}",
        ),
        cure=(FaultTrigger(cron=tool), FaultTrigger(restart=(layout.unit,))),
        collateral=(
            *neighbour.unharmed,
            read,
            refused,
            UnitRunningCheck(name="the database ran on", unit=after, undisturbed=True),
            UnchangedCheck(name="who may come in", path=f"{db.conf}/pg_hba.conf"),
            UnchangedCheck(name="the rotation", path=tool),
            db.says("all rows are there", "SELECT count(*) FROM items", "2"),
        ),
        fault=FaultDescription(
            component=(service, layout.conf, role),
            mechanism=(
                "password",
                "rotated",
                "rotation",
                "authentication failed",
                "credential",
                "credentials",
            ),
            value=("db_password", role, vault),
        ),
        reference=(
            layout.put("db_password", f"'$(cat {vault}/{role})'"),
            f"systemctl restart {service}",
        ),
        relief=(db.ask(f"ALTER ROLE {role} PASSWORD '{old}'"),),
        shortcut=(
            f"sed -i 's/password$/trust/' {db.conf}/pg_hba.conf; systemctl reload postgresql",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="db-password-rotated",
    group="database",
    summary="a role's password was rotated, the stored one of a service no longer fits",
    draw=draw,
    needs=POSTGRES_NEEDS,
)
