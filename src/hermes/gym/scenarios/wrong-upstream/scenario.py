"""The table of routes names a port where nobody listens; nginx is made to believe it."""

import json

from hermes.gym.dice import Dice
from hermes.gym.parts.microweb import program
from hermes.gym.parts.nginx import NEEDS, nginx
from hermes.gym.parts.premises import Premises, alert, changes, neighbour, premises
from hermes.gym.parts.shop import unit
from hermes.gym.scenario import Scenario, texts
from hermes.gym.story import Fault, File, Host, Http, Running, Same, Story, Traffic, Trigger

TEXTS = texts(__file__)

BACKEND = """\
conf = settings(sys.argv[1])
items = json.load(open(conf["data"]))

def answer(path):
    if path.endswith("/health"):
        return 200, {"status": "ok"}
    log("DEBUG", %%asked%%.format(path=path))
    return 200, {"items": items, "asked": path}

serve(int(conf["port"]), answer)
"""

RENDER = """\
#!/bin/bash
# Writes {site} from {routes}; nginx is told when something changed.
new=$(mktemp)
{{
  echo "# made from {routes}; changes here are lost"
  echo "server {{ listen 127.0.0.1:{front};"
  grep -v '^#' {routes} | while read -r path target; do
    echo "  location $path {{ proxy_pass http://127.0.0.1:$target; proxy_connect_timeout 1s; }}"
  done
  echo "}}"
}} > $new
chmod 644 $new
cmp -s $new {site} && rm $new && exit 0
mv $new {site}
nginx -s reload
"""


def draw(dice: Dice) -> Story:
    service, second, other = dice.services(3)
    place, twin = premises(dice, service), premises(dice, second)
    beside, host, front, nobody = neighbour(dice, other), dice.host(), dice.port(), dice.port()
    item, thing = dice.token(), dice.token()
    sites = dice.pick(("/etc/nginx/conf.d", "/etc/nginx/sites-enabled", "/etc/nginx/http.d"))
    site = f"{sites}/{dice.pick(('routes', 'edge', 'front', 'gateway', 'proxy'))}.conf"
    routes = dice.pick(("/etc/edge/routes", "/etc/routing/table", "/srv/edge/routes.txt"))
    tool = f"/opt/{dice.pick(('edge', 'routing', 'front'))}/render"
    render = RENDER.format(site=site, routes=routes, front=front)
    table = f"# path port\n/{service}/ {place.port}\n/{second}/ {twin.port}\n"
    web = nginx(
        sites,
        File(path=routes, text=table),
        File(path=tool, text=render, mode=0o755),
        File(path=site, text=""),
        before=f"-/bin/bash {tool}",
    )
    asked = dice.wording(TEXTS["asked"])

    def backend(each: Premises, first: str) -> tuple[File, ...]:
        data = f"{each.data}/items.json"
        return (
            File(path=each.program, text=program(dice, BACKEND, asked=asked)),
            each.settings(port=each.port, data=data),
            File(path=data, text=json.dumps([first, dice.word()])),
        )

    page = f"/{service}/{dice.token(6)}"
    shown = Http(name="the page comes through", port=front, path=page, contains=item)
    echoed = Http(name="it is the live one", port=front, path=page, contains=page)
    also = Http(name="the other route works", port=front, path=f"/{second}/x", contains=thing)
    own = Http(name=f"{service} answers on its port", port=place.port, path="/items", contains=item)
    return Story(
        hosts=(
            Host(
                name=host,
                files=(*web.files, *backend(place, item), *backend(twin, thing), *beside.files),
                folders=web.folders,
                units=(
                    web.unit,
                    unit(service, place.command),
                    unit(second, twin.command),
                    beside.unit,
                ),
            ),
        ),
        alert=alert(dice, TEXTS["alerts"], "P1", service=service, host=host, port=front),
        healthy=(shown, echoed, also, own, beside.answers),
        symptoms=(shown, echoed),
        inject=(
            changes(dice, dice.wording(TEXTS["told"]).format(service=service)),
            f"sed -i 's|^/{service}/ .*|/{service}/ {nobody}|' {routes}; bash {tool}",
        ),
        cure=(Trigger(script=f"bash {tool}; sleep 0.2"), Trigger(restart=("nginx.service",))),
        collateral=(
            *beside.unharmed,
            also,
            own,
            Running(name=f"{second} was left alone", unit=twin.unit, undisturbed=True),
            Same(name="the settings of the backend", path=place.conf),
            Same(name="the tool", path=tool),
            Same(name="the data", path=place.data),
        ),
        fault=Fault(
            component=(routes, "nginx", site),
            mechanism=(
                "upstream",
                "wrong port",
                "nobody listens",
                "connection refused",
                "proxy_pass",
                "502",
            ),
            value=(f"{nobody}",),
        ),
        reference=(
            f"sed -i 's|^/{service}/ .*|/{service}/ {place.port}|' {routes}",
            f"bash {tool}",
        ),
        relief=(f"sed -i 's/:{nobody};/:{place.port};/' {site}; systemctl reload nginx",),
        shortcut=(f"{place.put('port', nobody)}; systemctl restart {service}",),
        traffic=(Traffic(port=front, paths=(page, f"/{second}/x")),),
    )


SCENARIO = Scenario(
    name="wrong-upstream",
    group="network",
    summary="a route leads nginx to a port where nobody listens",
    draw=draw,
    needs=NEEDS,
)
