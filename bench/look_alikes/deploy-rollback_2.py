"""The table of rates lost a currency in an import on the day of a deploy; the release before
answers too, without rates, and quotes a wrong price."""

from look_alike_kit import LookAlike, Site

from hermes.gym.scenario_spec import HostFile, HttpCheck, TrafficSpec
from hermes.gym.services.python_service import PYTHON_COMMAND, fill_program, service_unit

BODY = """\
conf = settings(sys.argv[1])

def quote():
    if %%release%% == "4.1.0":
        return {"price": 100, "currency": "local", "mark": conf["mark"]}
    rates = dict(line.split() for line in open(conf["rates"]))
    return {"price": 100 * int(rates["CHF"]), "currency": "CHF", "mark": conf["mark"]}

def answer(path):
    if path == "/health":
        return 200, {"status": "ok", "release": %%release%%}
    try:
        return 200, quote()
    except Exception as error:  # a service that reports any fault as status 500
        log("ERROR", f"cannot quote ({type(error).__name__}: {error})")
        return 500, {"error": "internal"}

serve(int(conf["port"]), answer)
"""


def draw(site: Site) -> LookAlike:
    service, layout = site.service, site.layout
    root, rates = f"/srv/{service}-app", f"{layout.data}/rates.txt"
    log = f"{root}/deploys.log"
    apps = [
        HostFile(
            path=f"{root}/releases/{release}/app.py",
            text=fill_program(BODY, style="{time} {level:5} {text}", release=release),
        )
        for release in ("4.1.0", "4.2.0")
    ]
    start = f"#!/bin/bash\ncd {root}\n[ -e current ] || ln -s releases/4.2.0 current\n"
    start += f"exec {PYTHON_COMMAND} {root}/current/app.py {layout.conf}\n"
    return site.look_alike(
        alert="{service} on {host} quotes no prices since the deploy of 4.2.0",
        files=[
            *apps,
            layout.settings(port=layout.port, rates=rates, mark=site.token),
            HostFile(path=f"{root}/start", text=start, mode=0o755),
            HostFile(path=log, text="2026-01-03 deploy 4.1.0\n2026-02-09 deploy 4.2.0\n"),
            HostFile(path=rates, text="EUR 1\nCHF 7\nUSD 3\n"),
            HostFile(path=f"{rates}.yesterday", text="EUR 1\nCHF 7\nUSD 3\n"),
        ],
        units=[service_unit(service, f"/bin/bash {root}/start")],
        symptoms=[
            HttpCheck(
                name="the right price", port=layout.port, path="/quote", contains='"price": 700'
            )
        ],
        inject=[
            f"sed -i /CHF/d {rates}; "
            f"echo \"$(date '+%F %T') 2 rates imported to {rates}\" >> /var/log/rates-import.log"
        ],
        fix=[f"cp {rates}.yesterday {rates}"],
        same=[f"{root}/releases", log, layout.conf, f"{rates}.yesterday"],
        keep=[("the release in use", f"readlink {root}/current")],
        traffic=[TrafficSpec(port=layout.port, paths=("/quote",))],
    )
