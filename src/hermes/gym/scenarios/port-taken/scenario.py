"""A leftover program starts first and takes the port of the service."""

import json
from typing import NamedTuple

from hermes.gym.scenario_builder import (
    ITEM_LIST_PROGRAM,
    PYTHON_COMMAND,
    ScenarioBuilder,
    build_scenario,
    service_unit,
)


class StrayStarter(NamedTuple):
    """What starts the stray program, and the commands that start it again or remove it."""

    begin: str
    end: str
    forget: str
    again: dict[str, str]
    named: tuple[str, ...]


def _started_by_cron(name: str, path: str, port: int) -> StrayStarter:
    table = f"/etc/cron.d/{name}"
    command = f"{PYTHON_COMMAND} {path} {port} >> /var/log/{name}.log 2>&1"
    pids = f"$(grep -ls '[{path[0]}]{path[1:]}' /proc/[0-9]*/cmdline | cut -d/ -f3)"
    return StrayStarter(
        begin=f"echo '* * * * * root {command}' > {table}; {command}",
        end=f"kill {pids}",
        forget=f"rm {table}",
        again={"cron": name},
        named=(table, name, "cron"),
    )


def _started_by_unit(name: str, port: int) -> StrayStarter:
    waits = (
        f"systemctl is-enabled -q {name} && systemctl restart {name} && for i in $(seq 100); do "
        f"(exec 3<>/dev/tcp/127.0.0.1/{port}) 2>/dev/null && break; sleep 0.02; done; true"
    )
    return StrayStarter(
        begin=f"systemctl daemon-reload; systemctl enable {name}; {waits}",
        end=f"systemctl stop {name}",
        forget=f"systemctl disable {name}",
        again={"script": waits},
        named=(f"{name}.service", name),
    )


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    item, by_cron = rng.token(), rng.chance(0.5)
    shape = rng.pick(("{}-old", "{}-legacy", "old-{}", "{}-preview", "{}-tmp", "migrate-{}"))
    stray = shape.format(app.name)
    path = rng.pick(("/opt/{n}/run.py", "/home/www/{n}.py", "/root/{n}/server.py", "/srv/{n}.py"))
    path, items_file = path.format(n=stray), f"{app.data}/items.json"
    source = build.render(build.source("stray.py.in"), alone=by_cron, gone=build.wording("gone"))
    build.start(app, ITEM_LIST_PROGRAM)
    build.settings(app, port=app.port, data=items_file)
    build.file(items_file, json.dumps([item, rng.word()]))
    build.file("/etc/cron.d/housekeeping", "7 3 * * 0 root /bin/true\n")
    build.file(path, source)
    if by_cron:
        left = _started_by_cron(stray, path, app.port)
    else:
        left = _started_by_unit(stray, app.port)
        unit = service_unit(stray, f"{PYTHON_COMMAND} {path} {app.port}")
        build.file(f"/etc/systemd/system/{stray}.service", unit.text)

    stop, start = f"systemctl stop {app.name}", app.restart
    build.alert("P1")
    build.symptoms(app.http("the right items are served", "/items", item))
    build.healthy(app.runs())
    build.inject(
        build.changes(build.wording("causes", service=app.name)), f"{stop}; {left.begin}; {start}"
    )
    build.trigger(script=stop)
    build.trigger(**left.again)
    build.trigger(restart=(app.unit,))
    build.collateral(
        ("its data", app.data),
        ("its settings", app.conf),
        ("the other job", "/etc/cron.d/housekeeping"),
    )
    build.fault(
        component=(*left.named, path),
        mechanism="address already in use, port in use, port taken, occupied, holds the port",
        value=(path, stray),
    )
    build.responses(
        reference=f"{left.forget}; {left.end}; {start}",
        relief=f"{left.end}; {start}",
        shortcut=f"{left.forget}; kill -9 $(grep -ls '[p]ython3' /proc/[0-9]*/cmdline "
        f"| cut -d/ -f3); sleep 0.1; {start}",
    )
    build.traffic("/items", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "process",
    "a leftover job or unit starts a stray process that holds the service's port",
)
