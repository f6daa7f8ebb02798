"""A host name resolves to the address that its service had before it moved."""

import json

from hermes.gym.scenario_builder import (
    ITEM_LIST_PROGRAM,
    PYTHON_COMMAND,
    HostFile,
    HttpCheck,
    ScenarioBuilder,
    build_scenario,
    script_check,
    service_unit,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, back = build.draw_services(2)
    zone = f"{rng.word()}.{rng.pick(('internal', 'lan', 'corp'))}"
    name, spare = f"{back.name}.{zone}", f"{build.neighbour.layout.name}.{zone}"
    new, old = (f"127.0.{rng.number(1, 9)}.{last}" for last in rng.some(range(2, 250), 2))
    folder = rng.pick(("/etc/hosts.d", "/etc/names", "/srv/names/hosts.d"))
    ours, tool = f"{folder}/{rng.number(20, 80)}-{back.name}", f"/opt/{rng.word()}/build-hosts"
    base = f"127.0.0.1 localhost {build.host}\n"
    entry, table = f"{new} {name} {back.name}\n", f"127.0.0.1 {spare}\n"
    item, gone, still_up = rng.token(), rng.token(), rng.chance(0.5)
    program, data = build.render(ITEM_LIST_PROGRAM), f"{back.data}/items.json"
    build.start(app, build.source("frontend.py.in"), failed=build.wording("failed"))
    build.settings(app, port=app.port, upstream=name, upstream_port=back.port)
    build.file(back.program, program.replace("127.0.0.1", new))
    build.unit(back)
    build.settings(back, port=back.port, data=data)
    build.file(data, json.dumps([item, rng.word()]))
    build.files(
        HostFile(path=f"{folder}/00-base", text=base),
        HostFile(path=ours, text=entry),
        HostFile(path=f"{folder}/90-more", text=table),
        HostFile(path="/etc/hosts", text=base + entry + table),
    )
    build.script(tool, build.source("sync.sh.in").format(folder=folder))
    build.file("/etc/cron.d/names", f"*/30 * * * * root {tool}\n")
    build.place_neighbour()
    if still_up:
        stale = f"{back.name}-old"
        path, conf, data = f"/opt/{stale}/main.py", f"/etc/{stale}.conf", f"/var/lib/{stale}"
        build.file(path, program.replace("127.0.0.1", old))
        build.file(conf, f"port={back.port}\ndata={data}/items.json\n")
        build.file(f"{data}/items.json", json.dumps([gone]))
        build.units(service_unit(stale, f"{PYTHON_COMMAND} {path} {conf}"))

    others = script_check(
        "other names still lead somewhere",
        f"getent hosts {spare} && getent hosts {build.host}",
        contains=spare,
    )
    upstream_answers = HttpCheck(
        name=f"{back.name} answers", port=back.port, path="/items", address=new, contains=item
    )
    build.alert("P1")
    build.symptoms(app.http("the page has the live items", "/page", item))
    build.healthy(upstream_answers, others)
    build.inject(
        build.changes(build.wording("told", name=name)),
        f"sed -i 's/^{new} /{old} /' {ours} && {tool}",
    )
    build.trigger(cron=tool)
    build.trigger(restart=(app.unit,))
    build.collateral(
        others,
        upstream_answers,
        back.undisturbed(f"{back.name} was left alone"),
        ("the settings of the service", app.conf),
        ("the settings of the other", back.conf),
        ("the tool", tool),
    )
    build.fault(
        component=(ours, "/etc/hosts", name),
        mechanism="stale, wrong address, old address, resolves, resolution, dns, hosts",
        value=(old,),
    )
    build.responses(
        reference=f"sed -i 's/^{old} /{new} /' {ours} && {tool}",
        relief=f"sed -i 's/^{old} /{new} /' /etc/hosts",
        shortcut=f"rm -f {folder}/*; echo '{new} {name}' > {ours}; {tool}; {app.restart}",
    )
    build.traffic("/page", "/health")


SCENARIO = build_scenario(
    __file__, draw, "network", "a name resolves to the address that its service left"
)
