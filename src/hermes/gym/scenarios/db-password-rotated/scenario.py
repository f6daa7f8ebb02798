"""The password of a database role was rotated; one of its two users still has the old one."""

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.pg_client import PG_CLIENT
from hermes.gym.parts.pg_server import NEEDS, postgres
from hermes.gym.parts.premises import alert, changes, neighbour, premises
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Http, Running, Same, Script, Story, Traffic, Trigger

TEXTS = texts(__file__)

APP = (
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

ENFORCE = """\
#!/bin/bash
# Sees to it that every role has the password that lies in {vault}.
for file in {vault}/*; do
  role=${{file##*/}}
  {psql} "ALTER ROLE $role PASSWORD '$(cat $file)'" && echo "$(date '+%F %T') {line}" >> {log}
done
"""


def draw(dice: Dice) -> Story:
    service, reader, other = dice.services(3)
    place, readers, beside = premises(dice, service), premises(dice, reader), neighbour(dice, other)
    host, role = dice.host(), f"{dice.word()}_{dice.pick(('app', 'rw', 'svc', 'user'))}"
    old, new, item = dice.token(16), dice.token(16), dice.token()
    folder = dice.pick(("/etc/secrets", "/etc/vault", "/srv/secrets", "/etc/credentials"))
    vault = f"{folder}/{dice.pick(('roles', 'current', 'db', 'postgres'))}"
    tool = f"/opt/{dice.pick(('rotate', 'secrets', 'keeper', 'credentials'))}/enforce"
    log = f"/var/log/{dice.pick(('rotation', 'secrets', 'credentials'))}.log"
    db = postgres(
        dice,
        [
            "CREATE TABLE items (id int PRIMARY KEY, sku text NOT NULL)",
            f"INSERT INTO items VALUES (1, '{item}'), (2, '{dice.word()}')",
            f"CREATE ROLE {role} LOGIN PASSWORD '{old}'",
            f"GRANT SELECT ON items TO {role}",
        ],
        password_encryption=dice.pick(("'md5'", "'scram-sha-256'")),
    )
    access = {"db_port": db.port, "db_name": db.database, "db_user": role}
    source = program(dice, APP, refused=dice.wording(TEXTS["refused"]))
    enforce = ENFORCE.format(
        vault=vault,
        log=log,
        line=dice.wording(TEXTS["rotated"]).format(role="$role"),
        psql=f"{db.psql} -Xq -h /run/postgresql -p {db.port} -U postgres -c",
    )
    files = (
        *db.files,
        *(File(path=each.program, text=source) for each in (place, readers)),
        place.settings(port=place.port, **access, db_password=old),
        readers.settings(port=readers.port, **access, db_password_file=f"{vault}/{role}"),
        File(path=f"{vault}/{role}", text=f"{old}\n", mode=0o600),
        File(path=tool, text=enforce, mode=0o755),
        File(path="/etc/cron.d/rotation", text=f"17 */6 * * * root {tool}\n"),
        *beside.files,
    )
    after = "postgresql.service"
    listed = Http(name="the items are listed", port=place.port, path="/items", contains=item)
    read = Http(name=f"{reader} reads them too", port=readers.port, path="/items", contains=item)
    refused = Script(
        name="a wrong password is refused",
        script=f"! PGPASSWORD={dice.token(9)} {db.psql} -X -h 127.0.0.1 -p {db.port} "
        f"-U {role} -d {db.database} -c 'SELECT 1' 2>&1",
        contains="password authentication failed",
    )
    return Story(
        hosts=(db.host(host, files, (place, readers), beside.unit),),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=place.port),
        healthy=(listed, read, refused, beside.answers),
        symptoms=(listed,),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(role=role)),
            f"echo {new} > {vault}/{role} && {tool}",
        ),
        cure=(Trigger(cron=tool), Trigger(restart=(place.unit,))),
        collateral=(
            *beside.unharmed,
            read,
            refused,
            Running(name="the database ran on", unit=after, undisturbed=True),
            Same(name="who may come in", path=f"{db.conf}/pg_hba.conf"),
            Same(name="the rotation", path=tool),
            db.says("all rows are there", "SELECT count(*) FROM items", "2"),
        ),
        fault=Fault(
            component=(service, place.conf, role),
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
            place.put("db_password", f"'$(cat {vault}/{role})'"),
            f"systemctl restart {service}",
        ),
        relief=(db.ask(f"ALTER ROLE {role} PASSWORD '{old}'"),),
        shortcut=(
            f"sed -i 's/password$/trust/' {db.conf}/pg_hba.conf; systemctl reload postgresql",
        ),
        traffic=(Traffic(port=place.port, paths=("/items", "/health")),),
    )


SCENARIO = Scenario(
    name="db-password-rotated",
    group="database",
    summary="a role's password was rotated, the stored one of a service no longer fits",
    draw=draw,
    needs=NEEDS,
)
