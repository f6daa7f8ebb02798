"""A host name resolves to the address that its service had before it moved."""

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
    ScriptCheck,
    TrafficSpec,
    UnchangedCheck,
    UnitRunningCheck,
)
from hermes.gym.services.python_service import (
    ITEM_LIST_PROGRAM,
    change_log_script,
    draw_alert,
    draw_layout,
    draw_neighbour,
    render_program,
    service_unit,
)

TEXTS = texts(__file__)

FRONTEND_PROGRAM = """\
conf = settings(sys.argv[1])

def fetch():
    with socket.create_connection((conf["upstream"], int(conf["upstream_port"])), 1.0) as line:
        line.sendall(b"GET /items HTTP/1.0\\r\\n\\r\\n")
        with line.makefile("rb") as file:
            return json.loads(file.read().partition(b"\\r\\n\\r\\n")[2])["items"]

def answer(path):
    if path == "/health":
        return 200, {"status": "ok"}
    try:
        return 200, {"page": fetch()}
    except (OSError, ValueError) as error:
        log("ERROR", %%failed%%.format(name=conf["upstream"], error=error))
        return 502, {"error": "upstream"}

serve(int(conf["port"]), answer)
"""
SYNC_SCRIPT = """\
#!/bin/bash
# Puts /etc/hosts together from {folder}.
cat {folder}/* > /etc/hosts.new && mv /etc/hosts.new /etc/hosts
"""


def draw(rng: RandomSource) -> ScenarioSpec:
    service, upstream, other = rng.services(3)
    layout, back, neighbour = (
        draw_layout(rng, service),
        draw_layout(rng, upstream),
        draw_neighbour(rng, other),
    )
    host, zone = rng.host(), f"{rng.word()}.{rng.pick(('internal', 'lan', 'corp'))}"
    name, spare = f"{upstream}.{zone}", f"{other}.{zone}"
    new, old = (f"127.0.{rng.number(1, 9)}.{last}" for last in rng.some(range(2, 250), 2))
    folder = rng.pick(("/etc/hosts.d", "/etc/names", "/srv/names/hosts.d"))
    ours, tool = f"{folder}/{rng.number(20, 80)}-{upstream}", f"/opt/{rng.word()}/build-hosts"
    base = f"127.0.0.1 localhost {host}\n"
    entry, table = f"{new} {name} {upstream}\n", f"127.0.0.1 {spare}\n"
    item, gone = rng.token(), rng.token()
    still_up = rng.chance(0.5)
    stale = f"{upstream}-old"
    program = render_program(rng, ITEM_LIST_PROGRAM)
    source = render_program(rng, FRONTEND_PROGRAM, failed=rng.wording(TEXTS["failed"]))
    files = [
        HostFile(path=layout.program, text=source),
        layout.settings(port=layout.port, upstream=name, upstream_port=back.port),
        HostFile(path=back.program, text=program.replace("127.0.0.1", new)),
        back.settings(port=back.port, data=f"{back.data}/items.json"),
        HostFile(path=f"{back.data}/items.json", text=json.dumps([item, rng.word()])),
        HostFile(path=f"{folder}/00-base", text=base),
        HostFile(path=ours, text=entry),
        HostFile(path=f"{folder}/90-more", text=table),
        HostFile(path="/etc/hosts", text=base + entry + table),
        HostFile(path=tool, text=SYNC_SCRIPT.format(folder=folder), mode=0o755),
        HostFile(path="/etc/cron.d/names", text=f"*/30 * * * * root {tool}\n"),
        *neighbour.files,
    ]
    units = [
        service_unit(service, layout.command),
        service_unit(upstream, back.command),
        neighbour.unit,
    ]
    if still_up:
        program_old, conf_old = f"/opt/{stale}/main.py", f"/etc/{stale}.conf"
        text = f"port=%d\ndata=/var/lib/{stale}/items.json\n" % back.port
        files += [
            HostFile(path=program_old, text=program.replace("127.0.0.1", old)),
            HostFile(path=conf_old, text=text),
            HostFile(path=f"/var/lib/{stale}/items.json", text=json.dumps([gone])),
        ]
        units.append(service_unit(stale, f"/usr/bin/python3 -S {program_old} {conf_old}"))
    page = HttpCheck(
        name="the page has the live items", port=layout.port, path="/page", contains=item
    )
    others = ScriptCheck(
        name="other names still lead somewhere",
        script=f"getent hosts {spare} && getent hosts {host}",
        contains=spare,
    )
    upstream_answers = HttpCheck(
        name=f"{upstream} answers", port=back.port, path="/items", address=new, contains=item
    )
    return ScenarioSpec(
        hosts=(HostSpec(name=host, files=tuple(files), units=tuple(units)),),
        alert=draw_alert(rng, TEXTS["alerts"], "P1", service=service, host=host, port=layout.port),
        healthy=(page, upstream_answers, others, neighbour.answers),
        symptoms=(page,),
        inject=(
            change_log_script(rng, rng.wording(TEXTS["told"]).format(name=name)),
            f"sed -i 's/^{new} /{old} /' {ours} && {tool}",
        ),
        cure=(FaultTrigger(cron=tool), FaultTrigger(restart=(layout.unit,))),
        collateral=(
            *neighbour.unharmed,
            others,
            upstream_answers,
            UnitRunningCheck(name=f"{upstream} was left alone", unit=back.unit, undisturbed=True),
            UnchangedCheck(name="the settings of the service", path=layout.conf),
            UnchangedCheck(name="the settings of the other", path=back.conf),
            UnchangedCheck(name="the tool", path=tool),
        ),
        fault=FaultDescription(
            component=(ours, "/etc/hosts", name),
            mechanism=(
                "stale",
                "wrong address",
                "old address",
                "resolves",
                "resolution",
                "dns",
                "hosts",
            ),
            value=(old,),
        ),
        reference=(f"sed -i 's/^{old} /{new} /' {ours} && {tool}",),
        relief=(f"sed -i 's/^{old} /{new} /' /etc/hosts",),
        shortcut=(
            f"rm -f {folder}/*; echo '{new} {name}' > {ours}; {tool}; systemctl restart {service}",
        ),
        traffic=(TrafficSpec(port=layout.port, paths=("/page", "/health")),),
    )


SCENARIO = Scenario(
    name="dns-wrong",
    group="network",
    summary="a name resolves to the address that its service left",
    draw=draw,
)
