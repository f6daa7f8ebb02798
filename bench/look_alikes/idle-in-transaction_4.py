"""An export hangs in its transaction because the archive that reads its pipe is down; one
transaction for each export is on purpose. With more commits bookings work and exports do not."""

import re

from look_alike_kit import LookAlike, Site
from msgspec.structs import replace

from hermes.gym.scenario_spec import FaultTrigger, HostFile, ScriptCheck, UnchangedCheck
from hermes.gym.scenarios.combine import draw_scenario
from hermes.gym.services.postgres import PG_CLIENT, POSTGRES_NEEDS
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

NEEDS = POSTGRES_NEEDS
EXPORT = (
    PG_CLIENT
    + """\
conf = settings(sys.argv[1])
every = int(conf["commit_every"])
if not os.path.exists(conf["pipe"]):
    os.mkfifo(conf["pipe"])

def export(session):
    session.ask("BEGIN")
    session.ask("LOCK TABLE stock IN SHARE MODE")
    rows = session.ask("SELECT id, sku FROM stock ORDER BY id")
    if every:
        session.ask("COMMIT")
    log("INFO", f"writing {len(rows)} rows to {conf['pipe']}")
    with open(conf["pipe"], "w") as file:
        file.write("".join(f"{row[0]} {row[1]}\\n" for row in rows))
    if not every:
        session.ask("COMMIT")
    log("INFO", "export done")

while True:
    try:
        session = Session(conf)
        while True:
            export(session)
            time.sleep(1)
    except DbError as error:
        log("WARN", f"starting over: {error}")
        time.sleep(0.3)
"""
)
ARCHIVE = """\
conf = settings(sys.argv[1])
if not os.path.isdir(conf["folder"]):
    fatal(f"no folder {conf['folder']}")
while True:
    if not os.path.exists(conf["pipe"]):
        time.sleep(0.1)
        continue
    with open(conf["pipe"]) as file:
        text = file.read()
    with open(f"{conf['folder']}/stock.txt", "w") as file:
        file.write(text)
    log("INFO", f"export of {len(text.splitlines())} rows archived")
"""


def draw(site: Site) -> LookAlike:
    spec = draw_scenario("db-idle-in-transaction", site.rng)
    host, service = spec.hosts[0], spec.alert.labels["service"]
    scripts = " ".join(getattr(check, "script", "") for check in spec.collateral)
    found = re.search(r"\$\((\S+/psql .*?-d \S+) -c", scripts)
    confs = [file for file in host.files if re.search(r"^db_password\W", file.text, re.M)]
    access = "".join(
        f"{key}={value}\n" for key, value in re.findall(r"^(db_\w+)\W+(\S+)$", confs[1].text, re.M)
    )
    assert found
    psql, export, archive = found[1], f"{service}-export", f"{service}-archive"
    pipe, folder, style = f"/run/{export}.pipe", f"/srv/{archive}", "{time} {level:5} {text}"
    conf = f"/etc/{export}.conf"
    text = "# 0: one transaction for each export, the auditors need one picture of all rows\n"
    text += f"commit_every=0\npipe={pipe}\nname={export}\n{access}"
    files = (
        HostFile(path=f"/opt/{export}/main.py", text=fill_program(EXPORT, style=style)),
        HostFile(path=conf, text=text),
        HostFile(path=f"{conf}.sample", text="commit_every=3\n"),
        HostFile(path=f"/opt/{archive}/main.py", text=fill_program(ARCHIVE, style=style)),
        HostFile(path=f"/etc/{archive}.conf", text=f"pipe={pipe}\nfolder={folder}\n"),
        HostFile(path=f"{folder}/2023.txt", text="kept\n"),
    )
    units = (
        service_unit(archive, f"{PYTHON_COMMAND} /opt/{archive}/main.py /etc/{archive}.conf"),
        service_unit(
            export, f"{PYTHON_COMMAND} /opt/{export}/main.py {conf}", after="postgresql.service"
        ),
    )
    arrives = ScriptCheck(
        name="exports are archived",
        script=f"rm -f {folder}/stock.txt; for n in $(seq 40); do "
        f"[ -s {folder}/stock.txt ] && exit 0; sleep 0.1; done; exit 1",
    )
    again = f"systemctl reset-failed {archive}; systemctl restart {archive} || true"
    spec = replace(
        spec,
        hosts=(replace(host, files=(*host.files, *files), units=(*host.units, *units)),),
        healthy=(*spec.healthy, arrives),
        symptoms=(*spec.symptoms, arrives),
        inject=(f"mv {folder} {folder}.2023; {again}",),
        reference=(f"mv {folder}.2023 {folder}; {again}; sleep 1",),
        cure=(FaultTrigger(restart=(f"{export}.service",), pause=0.3),),
        collateral=(
            *spec.collateral,
            *(UnchangedCheck(name=f"{file.path} is as it was", path=file.path) for file in confs),
            *(
                UnchangedCheck(name=f"{file.path} is as it was", path=file.path)
                for file in files[:5]
            ),
        ),
        settle=2.0,
    )
    return LookAlike(
        spec,
        keep=(
            ("rows", f"{psql} -c 'SELECT id, sku FROM stock ORDER BY id'"),
            ("the archive", f"cat {folder}*/2023.txt"),
        ),
        moving=(f"{folder}/stock.txt",),
    )
