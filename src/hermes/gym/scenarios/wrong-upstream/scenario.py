"""The table of routes names a port on which nothing listens, and nginx uses it."""

import json

from hermes.gym.scenario_builder import (
    NGINX_NEEDS,
    HostFile,
    HttpCheck,
    ScenarioBuilder,
    build_scenario,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, twin = build.draw_services(2)
    front, unused_port, item, thing = rng.port(), rng.port(), rng.token(), rng.token()
    sites = rng.pick(("/etc/nginx/conf.d", "/etc/nginx/sites-enabled", "/etc/nginx/http.d"))
    site = f"{sites}/{rng.pick(('routes', 'edge', 'front', 'gateway', 'proxy'))}.conf"
    routes = rng.pick(("/etc/edge/routes", "/etc/routing/table", "/srv/edge/routes.txt"))
    tool = f"/opt/{rng.pick(('edge', 'routing', 'front'))}/render"
    render = build.source("render.sh.in").format(site=site, routes=routes, front=front)
    table = f"# path port\n/{app.name}/ {app.port}\n/{twin.name}/ {twin.port}\n"
    build.nginx(
        sites,
        HostFile(path=routes, text=table),
        HostFile(path=tool, text=render, mode=0o755),
        HostFile(path=site, text=""),
        before=f"-/bin/bash {tool}",
    )
    asked, page, other_page = (
        build.wording("asked"),
        f"/{app.name}/{rng.token(6)}",
        f"/{twin.name}/x",
    )
    for each, first in ((app, item), (twin, thing)):
        data = f"{each.data}/items.json"
        build.start(each, build.source("backend.py.in"), asked=asked)
        build.settings(each, port=each.port, data=data)
        build.file(data, json.dumps([first, rng.word()]))

    other_route = HttpCheck(
        name="the other route works", port=front, path=other_page, contains=thing
    )
    backend_answers = app.http(f"{app.name} answers on its port", "/items", item)
    put = f"sed -i 's|^/{app.name}/ .*|/{app.name}/ {{}}|' {routes}"
    build.alert("P1", port=front)
    build.symptoms(
        HttpCheck(name="the page comes through", port=front, path=page, contains=item),
        HttpCheck(name="it is the live one", port=front, path=page, contains=page),
    )
    build.healthy(other_route, backend_answers)
    build.inject(
        build.changes(build.wording("told", service=app.name)),
        f"{put.format(unused_port)}; bash {tool}",
    )
    build.trigger(script=f"bash {tool}; sleep 0.2")
    build.trigger(restart=("nginx.service",))
    build.collateral(
        other_route,
        backend_answers,
        twin.undisturbed(f"{twin.name} was left alone"),
        ("the settings of the backend", app.conf),
        ("the tool", tool),
        ("the data", app.data),
    )
    build.fault(
        component=(routes, "nginx", site),
        mechanism="upstream, wrong port, nobody listens, connection refused, proxy_pass, 502",
        value=(f"{unused_port}",),
    )
    build.responses(
        reference=(put.format(app.port), f"bash {tool}"),
        relief=f"sed -i 's/:{unused_port};/:{app.port};/' {site}; systemctl reload nginx",
        shortcut=f"{app.put('port', unused_port)}; {app.restart}",
    )
    build.traffic(page, other_page, port=front)


SCENARIO = build_scenario(
    __file__,
    draw,
    "network",
    "a route leads nginx to a port where nobody listens",
    needs=NGINX_NEEDS,
)
