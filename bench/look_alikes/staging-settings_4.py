"""The live list was cut short by a broken import, and the service was put on the staging list
until it is whole; pointed back to its own settings it sells articles without a price."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, ScriptCheck, TrafficSpec
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
import signal

rows, state = [], {}

def load(*_):
    path = f"{os.path.dirname(sys.argv[1])}/{settings(sys.argv[1])['profile']}.conf"
    state.update(settings(path))
    lines = open(state["data"]).read().splitlines()
    rows[:] = [line for line in lines if line != "end"]
    log("INFO", f"settings loaded from {path}, {len(rows)} articles")
    if "end" not in lines:
        log("WARN", f"{state['data']} has no closing line; unknown prices are taken as 0")

load()
signal.signal(signal.SIGHUP, load)

def answer(page):
    if page == "/health":
        return 200, {"status": "ok"}
    free = [row for row in rows if not row.partition(" ")[2]]
    if free:
        with open(state["sales"], "a") as file:
            file.write(f"{free[0]} sold for 0\\n")
    return 200, {"items": rows}

serve(int(state["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    folder, sales = f"/etc/{service}/profiles", f"{layout.data}/sales.log"
    live, test = f"{layout.data}/production.txt", f"{layout.data}/staging.txt"
    whole, last = f"{site.token} 10\nchair 12\nlamp 15\n", f"{site.token}-z 19"
    whole += f"{last}\nend\n"
    parcel = f"/srv/import/{service}/production.txt"
    common = f"port={layout.port}\nsales={sales}\n"
    note = f"# staging until {live} is whole again: the import of today broke off\n"
    choose = f"printf '%s\\n' '{{}}profile={{}}' > {folder}/active.conf; systemctl reload {service}"
    reload = "ExecReload=/bin/kill -HUP $MAINPID"
    return site.look_alike(
        alert="{service} on {host}: people see test articles, the expected article is missing",
        symptoms=[
            HttpCheck(
                name="the first article", port=layout.port, path="/items", contains=site.token
            ),
            HttpCheck(name="the last article", port=layout.port, path="/items", contains=last),
        ],
        files=[
            HostFile(path=layout.program, text=fill_program(BODY, style="{time} {level:5} {text}")),
            HostFile(path=f"{folder}/active.conf", text="profile=production\n"),
            HostFile(path=f"{folder}/production.conf", text=f"{common}data={live}\n"),
            HostFile(path=f"{folder}/staging.conf", text=f"{common}data={test}\n"),
            HostFile(path=live, text=whole),
            HostFile(path=test, text="test-0001 1\ndummy 1\nend\n"),
            HostFile(path=parcel, text=whole),
            HostFile(path=sales, text=""),
        ],
        units=[
            service_unit(
                service, f"{PYTHON_COMMAND} {layout.program} {folder}/active.conf", more=reload
            )
        ],
        inject=[
            f"printf '{site.token} 10\\nchair 12\\nla' > {live}; {choose.format(note, 'staging')}"
        ],
        fix=[f"cp {parcel} {live}; {choose.format('', 'production')}"],
        same=[
            f"{folder}/production.conf",
            f"{folder}/staging.conf",
            test,
            parcel,
            layout.program,
        ],
        collateral=[ScriptCheck(name="nothing was sold for 0", script=f"test ! -s {sales}")],
        traffic=[TrafficSpec(port=layout.port, paths=("/items",))],
    )
