"""The host runs on the settings called staging on purpose; the items are wrong because an import
put the test file over the live one. The settings called production lead to a retired list."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
path = sys.argv[1]
path = f"{os.path.dirname(path)}/{settings(path)['profile']}.conf"
conf = settings(path)
log("INFO", f"settings loaded from {path}")

def answer(page):
    if page == "/health":
        return 200, {"status": "ok"}
    return 200, '{"items": ' + open(conf["data"]).read().strip() + "}"

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    folder = f"/etc/{service}/profiles"
    live, old = f"{layout.data}/items.json", f"{layout.data}/retired.json"
    staging = "# live since the hosts were merged in March; the name was kept\n"
    production = "# retired in March with the old shop, kept for the auditors\n"
    drop = f"/srv/import/{service}"
    return site.look_alike(
        alert="{service} on {host} serves wrong prices, the expected article is missing",
        symptoms=[
            HttpCheck(name="the live items", port=layout.port, path="/items", contains=site.token)
        ],
        files=[
            HostFile(path=layout.program, text=fill_program(BODY, style="{time} {level:5} {text}")),
            HostFile(path=f"{folder}/active.conf", text="profile=staging\n"),
            HostFile(
                path=f"{folder}/staging.conf", text=f"{staging}port={layout.port}\ndata={live}\n"
            ),
            HostFile(
                path=f"{folder}/production.conf",
                text=f"{production}port={layout.port}\ndata={old}\n",
            ),
            HostFile(path=live, text=f'["{site.token}", "chair", "lamp"]\n'),
            HostFile(path=old, text='["oil-lamp", "stool"]\n'),
            HostFile(path=f"{drop}/items-live.json", text=f'["{site.token}", "chair", "lamp"]\n'),
            HostFile(path=f"{drop}/items-test.json", text='["test-0001", "dummy"]\n'),
        ],
        units=[service_unit(service, f"{PYTHON_COMMAND} {layout.program} {folder}/active.conf")],
        inject=[
            f"cp {drop}/items-test.json {live}; "
            f"echo \"$(date '+%F %T') import: items-test.json -> {live}\" >> /var/log/import.log"
        ],
        fix=[f"cp {drop}/items-live.json {live}"],
        same=[folder, drop, old, layout.program],
        traffic=[TrafficSpec(port=layout.port, paths=("/items",))],
    )
