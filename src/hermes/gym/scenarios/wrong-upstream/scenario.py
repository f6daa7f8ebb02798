"""The table of routes names a port on which nothing listens, and nginx uses it."""

import json

from hermes.gym.random_source import RandomSource
from hermes.gym.scenario import Scenario, texts
from hermes.gym.scenario_spec import (
    FaultDescription,
    FaultTrigger,
    HostFile,
    HostSpec,
    HttpCheck,
    ScenarioSpec,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.nginx import NGINX_NEEDS, nginx_server
from hermes.gym.services.python_service import (
    ServiceLayout,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)

TEXTS = texts(__file__)

BACKEND_PROGRAM = """\
conf = settings(sys.argv[1])
items = json.load(open(conf["data"]))

def answer(path):
    if path.endswith("/health"):
        return 200, {"status": "ok"}
    log("DEBUG", %%asked%%.format(path=path))
    return 200, {"items": items, "asked": path}

serve(int(conf["port"]), answer)
"""

RENDER_SCRIPT = """\
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


def draw(rng: RandomSource) -> ScenarioSpec:
    service, second, other = rng.services(3)
    layout, twin = draw_layout(rng, service), draw_layout(rng, second)
    neighbour, host, front, unused_port = (
        draw_neighbour(rng, other),
        rng.host(),
        rng.port(),
        rng.port(),
    )
    item, thing = rng.token(), rng.token()
    sites = rng.pick(("/etc/nginx/conf.d", "/etc/nginx/sites-enabled", "/etc/nginx/http.d"))
    site = f"{sites}/{rng.pick(('routes', 'edge', 'front', 'gateway', 'proxy'))}.conf"
    routes = rng.pick(("/etc/edge/routes", "/etc/routing/table", "/srv/edge/routes.txt"))
    tool = f"/opt/{rng.pick(('edge', 'routing', 'front'))}/render"
    render = RENDER_SCRIPT.format(site=site, routes=routes, front=front)
    table = f"# path port\n/{service}/ {layout.port}\n/{second}/ {twin.port}\n"
    web = nginx_server(
        sites,
        HostFile(path=routes, text=table),
        HostFile(path=tool, text=render, mode=0o755),
        HostFile(path=site, text=""),
        before=f"-/bin/bash {tool}",
    )
    asked = rng.wording(TEXTS["asked"])

    def backend(each: ServiceLayout, first: str) -> tuple[HostFile, ...]:
        data = f"{each.data}/items.json"
        return (
            HostFile(path=each.program, text=render_program(rng, BACKEND_PROGRAM, asked=asked)),
            each.settings(port=each.port, data=data),
            HostFile(path=data, text=json.dumps([first, rng.word()])),
        )

    page = f"/{service}/{rng.token(6)}"
    shown = HttpCheck(name="the page comes through", port=front, path=page, contains=item)
    echoed = HttpCheck(name="it is the live one", port=front, path=page, contains=page)
    other_route = HttpCheck(
        name="the other route works", port=front, path=f"/{second}/x", contains=thing
    )
    backend_answers = HttpCheck(
        name=f"{service} answers on its port", port=layout.port, path="/items", contains=item
    )
    return ScenarioSpec(
        hosts=(
            HostSpec(
                name=host,
                files=(*web.files, *backend(layout, item), *backend(twin, thing), *neighbour.files),
                folders=web.folders,
                units=(
                    web.unit,
                    service_unit(service, layout.command),
                    service_unit(second, twin.command),
                    neighbour.unit,
                ),
            ),
        ),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=front),
        healthy=(shown, echoed, other_route, backend_answers, neighbour.answers),
        symptoms=(shown, echoed),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(service=service)),
            f"sed -i 's|^/{service}/ .*|/{service}/ {unused_port}|' {routes}; bash {tool}",
        ),
        cure=(
            FaultTrigger(script=f"bash {tool}; sleep 0.2"),
            FaultTrigger(restart=("nginx.service",)),
        ),
        collateral=(
            *neighbour.unharmed,
            other_route,
            backend_answers,
            UnitRunningCheck(name=f"{second} was left alone", unit=twin.unit, undisturbed=True),
            UnchangedCheck(name="the settings of the backend", path=layout.conf),
            UnchangedCheck(name="the tool", path=tool),
            UnchangedCheck(name="the data", path=layout.data),
        ),
        fault=FaultDescription(
            component=(routes, "nginx", site),
            mechanism=(
                "upstream",
                "wrong port",
                "nobody listens",
                "connection refused",
                "proxy_pass",
                "502",
            ),
            value=(f"{unused_port}",),
        ),
        reference=(
            f"sed -i 's|^/{service}/ .*|/{service}/ {layout.port}|' {routes}",
            f"bash {tool}",
        ),
        relief=(f"sed -i 's/:{unused_port};/:{layout.port};/' {site}; systemctl reload nginx",),
        shortcut=(f"{layout.put('port', unused_port)}; systemctl restart {service}",),
        traffic=(TrafficSpec(port=front, paths=(page, f"/{second}/x")),),
    )


SCENARIO = Scenario(
    name="wrong-upstream",
    group="network",
    summary="a route leads nginx to a port where nobody listens",
    draw=draw,
    needs=NGINX_NEEDS,
)
