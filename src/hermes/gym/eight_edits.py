"""A host on which a person made eight edits in five files, one of which broke a service.

The edits look alike, the log does not name the file, and no playbook describes the fault: only an
experiment shows which edit it was. It is not in the list of scenarios: the demo plays it.
"""

from hermes.core.messages import Value
from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioAlert,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    LOG_STYLES,
    fill_program,
    service_unit,
    shop_service,
)

PERSON = "maria"
_PROGRAM = """\
shop, catalog = settings("/etc/%(name)s/shop.conf"), settings("/etc/%(name)s/catalog.conf")
limits = settings("/etc/%(name)s/limits.conf")
greeting = open("/srv/%(name)s/page.txt", encoding="utf-8").read().strip()
log("INFO", f"starting with {os.environ['WORKERS']} workers, timeout {limits['timeout_s']} s")

def load_rows():
    with open(catalog["file"], encoding=catalog["encoding"]) as file:
        rows = [line.strip().split(catalog["separator"]) for line in file]
    rows.sort(key=lambda row: row[catalog["sort_by"] == "price"])
    return rows[: int(shop["page_size"])]

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    if path != "/":
        return 404, {"error": "no such page"}
    try:
        return 200, {"greeting": greeting, "items": load_rows()}
    except Exception as error:
        log("ERROR", f"page not made: {error}")
        return 500, {"error": "internal error"}

serve(int(shop["port"]), answer)
"""
_ITEMS = "Crème brûlée;6.50\nEspresso;2.20\nTarte au citron;5.80\nThé vert;3.10\n"


class Edit(Value, frozen=True):
    path: str
    before: str
    after: str

    @property
    def command(self) -> str:
        return f"sed -i 's|^{self.before}$|{self.after}|' {self.path}"


def eight_edits(name: str) -> tuple[Edit, ...]:
    return (
        Edit(f"/etc/{name}/shop.conf", "page_size = 20", "page_size = 25"),
        Edit(f"/etc/{name}/shop.conf", "log_level = info", "log_level = warning"),
        Edit(f"/etc/{name}/catalog.conf", "sort_by = name", "sort_by = price"),
        Edit(f"/etc/{name}/catalog.conf", "encoding = utf-8", "encoding = ascii"),
        Edit(f"/etc/{name}/limits.conf", "timeout_s = 5", "timeout_s = 10"),
        Edit(f"/etc/{name}/limits.conf", "keep_alive_s = 30", "keep_alive_s = 60"),
        Edit(f"/etc/default/{name}", "WORKERS=4", "WORKERS=6"),
        Edit(f"/srv/{name}/page.txt", "Wellcome to our shop", "Welcome to our shop"),
    )


def draw_eight_edits(rng: RandomSource) -> ScenarioSpec:
    name, other = rng.services(2)
    host, port, other_port = rng.host(), rng.port(), rng.port()
    folder, edits = f"/etc/{name}", eight_edits(name)
    guilty = edits[3]
    page = HttpCheck(name="the shop shows its items", port=port, contains="Crème brûlée")
    beside = HttpCheck(name="the service beside it answers", port=other_port, path="/health")
    other_files, other_unit = shop_service(other, other_port, '["tea"]')
    unit = service_unit(
        name,
        f"/usr/bin/python3 -S -E /opt/{name}/server.py",
        more=f"EnvironmentFile=/etc/default/{name}",
    )
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=(*_files(name, port), *other_files),
                units=(unit, other_unit),
                users=("www", PERSON),
            ),
        ),
        alert=ScenarioAlert(
            title=f"{name} on {host} answers 500",
            text=f"http://{host}:{port}/ answers 500",
            severity="P1",
            labels={"service": name, "host": host},
        ),
        healthy=(page, beside),
        symptoms=(page,),
        inject=(
            *(f"{edit.command} && {_sudo_entry(host, folder, edit.path)}" for edit in edits),
            f"systemctl restart {name}",
        ),
        cure=(FaultTrigger(restart=(f"{name}.service",)),),
        collateral=(
            beside,
            UnitRunningCheck(
                name="the service beside it was left alone",
                unit=f"{other}.service",
                undisturbed=True,
            ),
            UnchangedCheck(name="its data", path=f"/srv/{name}/catalog.csv"),
        ),
        fault=FaultDescription(
            component=(guilty.path,), mechanism=(guilty.after,), value=(guilty.after,)
        ),
        reference=(
            f"sed -i 's|^{guilty.after}$|{guilty.before}|' {guilty.path}",
            f"systemctl restart {name}",
        ),
        futile=(f"systemctl restart {name}",),
        traffic=(TrafficSpec(port=port, paths=("/", "/health")),),
    )


def _files(name: str, port: int) -> tuple[HostFile, ...]:
    folder = f"/etc/{name}"
    shop = f"# {name}\nport = {port}\n\npage_size = 20\ncurrency = EUR\n\nlog_level = info\n"
    catalog = f"file = /srv/{name}/catalog.csv\nsort_by = name\nseparator = ;\nencoding = utf-8\n"
    return (
        HostFile(path=f"{folder}/shop.conf", text=shop),
        HostFile(path=f"{folder}/catalog.conf", text=catalog),
        HostFile(
            path=f"{folder}/limits.conf", text="timeout_s = 5\nretries = 2\nkeep_alive_s = 30\n"
        ),
        HostFile(path=f"/etc/default/{name}", text="WORKERS=4\n"),
        HostFile(path=f"/srv/{name}/page.txt", text="Wellcome to our shop\n"),
        HostFile(path=f"/srv/{name}/catalog.csv", text=_ITEMS),
        HostFile(
            path=f"/opt/{name}/server.py",
            text=fill_program(_PROGRAM % {"name": name}, style=LOG_STYLES[0]),
        ),
    )


def _sudo_entry(host: str, folder: str, path: str) -> str:
    """A command that appends what sudo logs when the person opens an editor."""
    line = (
        f"{host} sudo:  {PERSON} : TTY=pts/0 ; PWD={folder} ; USER=root ;"
        f" COMMAND=/usr/bin/nano {path}"
    )
    return f'echo "$(date -u +%Y-%m-%dT%H:%M:%S+00:00) {line}" >> /var/log/auth.log'


EIGHT_EDITS = Scenario(
    name="eight-edits",
    group="change",
    summary="one of eight edits in five files broke a service",
    draw=draw_eight_edits,
)
