"""The host runs on the settings called staging on purpose; the items are wrong because an import
put the test file over the live one. The settings called production lead to a retired list."""

from look_alike_kit import LookAlike, Site

from hermes.gym.parts.microweb import filled
from hermes.gym.parts.premises import PYTHON
from hermes.gym.parts.shop import unit
from hermes.gym.story import File, Http, Traffic

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
    service, place = site.service, site.place
    folder = f"/etc/{service}/profiles"
    live, old = f"{place.data}/items.json", f"{place.data}/retired.json"
    staging = "# live since the hosts were merged in March; the name was kept\n"
    production = "# retired in March with the old shop, kept for the auditors\n"
    drop = f"/srv/import/{service}"
    return site.look_alike(
        alert="{service} on {host} serves wrong prices, the expected article is missing",
        symptoms=[Http(name="the live items", port=place.port, path="/items", contains=site.token)],
        files=[
            File(path=place.program, text=filled(BODY, style="{time} {level:5} {text}")),
            File(path=f"{folder}/active.conf", text="profile=staging\n"),
            File(path=f"{folder}/staging.conf", text=f"{staging}port={place.port}\ndata={live}\n"),
            File(
                path=f"{folder}/production.conf",
                text=f"{production}port={place.port}\ndata={old}\n",
            ),
            File(path=live, text=f'["{site.token}", "chair", "lamp"]\n'),
            File(path=old, text='["oil-lamp", "stool"]\n'),
            File(path=f"{drop}/items-live.json", text=f'["{site.token}", "chair", "lamp"]\n'),
            File(path=f"{drop}/items-test.json", text='["test-0001", "dummy"]\n'),
        ],
        units=[unit(service, f"{PYTHON} {place.program} {folder}/active.conf")],
        inject=[
            f"cp {drop}/items-test.json {live}; "
            f"echo \"$(date '+%F %T') import: items-test.json -> {live}\" >> /var/log/import.log"
        ],
        fix=[f"cp {drop}/items-live.json {live}"],
        same=[folder, drop, old, place.program],
        traffic=[Traffic(port=place.port, paths=("/items",))],
    )
