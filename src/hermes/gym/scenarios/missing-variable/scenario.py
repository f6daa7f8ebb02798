"""The environment file lost a line that the service needs."""

from hermes.gym.scenario_builder import (
    PYTHON_COMMAND,
    ScenarioBuilder,
    build_scenario,
    start_unsupervised_script,
)

VARIABLE_NAMES = (
    "REGION", "CURRENCY", "WAREHOUSE", "TENANT", "QUEUE_NAME", "BUCKET", "REALM", "DEFAULT_LOCALE",
    "SHARD", "UPSTREAM_NAME", "MERCHANT_ID", "SITE_CODE",
)  # fmt: skip


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    service = app.name
    prefix = rng.pick((f"{service.upper()}_", "APP_", "", f"{service[:3].upper()}_"))
    names = [f"{prefix}{name}" for name in rng.some(VARIABLE_NAMES, rng.number(3, 5))]
    port_name = f"{prefix}PORT"
    now = {name: f"{rng.word()}-{rng.token(5)}" for name in names}
    before = now | {name: f"{rng.word()}-{rng.token(5)}" for name in names[:2]}
    lost = rng.pick(names[:2])
    paths = ("/etc/default/{}", "/etc/sysconfig/{}", "/etc/{}/env", "/opt/{}/.env")
    path = rng.pick(paths).format(service)
    copies = rng.pick((f"/var/backups/{service}", f"/srv/copies/{service}", "/var/backups/env"))
    month, stem = rng.number(2, 9), f"{copies}/{service}.2026"
    new, old = f"{stem}-{month:02}-14", f"{stem}-{month - 1:02}-03"
    missing = build.wording("missing")
    build.program(app, build.source("service.py.in"), names=(port_name, *names), missing=missing)
    for each, values in ((path, now), (new, now), (old, before)):
        lines = {port_name: f"{app.port}", **values}.items()
        build.file(each, "".join(f"{name}={value}\n" for name, value in lines))
    command = f"{PYTHON_COMMAND} {app.program}"
    build.unit(app, command, more=f"EnvironmentFile={path}")

    given = " ".join(f"{name}={value}" for name, value in now.items())
    build.alert("P1")
    build.symptoms(*(app.http(f"{name} is in use", "/facts", now[name]) for name in now))
    build.healthy(app.runs())
    build.inject(
        build.changes(build.wording("causes", service=service, copies=copies)),
        f"sed -i '/^{lost}=/d' {path} && {app.restart}",
    )
    build.clean_restart()
    build.collateral(("the copies", copies), ("the program", app.program))
    build.fault(
        component=(path, "EnvironmentFile"),
        mechanism="missing, not set, unset, undefined, removed",
        value=(lost,),
    )
    build.responses(
        reference=f"grep '^{lost}=' {new} >> {path} && {app.restart}",
        relief=start_unsupervised_script(
            app, before=f"{port_name}={app.port} {given}", command=command
        ),
        futile=f"cp {old} {path}; {app.restart}",
    )
    build.traffic("/facts", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "process",
    "a variable is gone from the environment file; the service refuses to start",
)
