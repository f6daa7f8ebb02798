"""The folder with the service's libraries was moved; Python looks for it at the old path."""

from hermes.gym.scenario_builder import ScenarioBuilder, build_scenario, start_unsupervised_script

MODULE_NAMES = (
    "ratebook",
    "taxtable",
    "pricing_rules",
    "geoindex",
    "fxrates",
    "discounts",
    "zonemap",
)


def _module_source(version: str, factor: int, add: int) -> str:
    return f'VERSION = "{version}"\n\n\ndef rate(level):\n    return level * {factor} + {add}\n'


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    module, level = rng.pick(MODULE_NAMES), rng.number(2, 50)
    factor, add = rng.number(3, 90), rng.number(100, 999)
    version, former = f"{rng.number(2, 9)}.{rng.number(0, 30)}", f"1.{rng.number(0, 30)}"
    home = rng.pick((f"/opt/{app.name}", f"/srv/{app.name}", f"/var/lib/{app.name}"))
    was = f"{home}/{rng.pick(('vendor', 'lib', 'site', 'libs'))}"
    now = f"{home}/{rng.pick(('vendored', 'third-party', 'deps', 'packages'))}/{rng.word()}"
    trap = f"{rng.pick(('/var/backups', '/root', '/srv/old'))}/{app.name}-libs-{former}"
    source = build.source("service.py.in", module=module)
    build.start(app, source, more=f"Environment=PYTHONPATH={was}")
    build.settings(app, port=app.port, level=level)
    build.file(f"{was}/{module}.py", _module_source(version, factor, add))
    build.file(f"{was}/{rng.word()}_extra.py", "UNUSED = True\n")
    build.file(f"{trap}/{module}.py", _module_source(former, factor - 1, add))

    cause = build.wording("causes", service=app.name)
    build.alert("P1")
    build.symptoms(app.http("the right rate", "/rate", f'"rate": {level * factor + add},'))
    build.healthy(app.runs())
    build.inject(
        build.changes(cause),
        f"mkdir -p {now.rpartition('/')[0]} && mv {was} {now} && {app.restart}",
    )
    build.clean_restart()
    build.collateral(
        ("the libraries of an older release", trap),
        ("the program", app.program),
        ("its settings", app.conf),
    )
    build.fault(
        component=(module, "PYTHONPATH", was),
        mechanism="ModuleNotFoundError, No module named, moved, cannot import",
        value=(was, now),
    )
    build.responses(
        reference=f"sed -i 's|PYTHONPATH={was}|PYTHONPATH={now}|' {app.unit_file} && "
        f"systemctl daemon-reload; {app.restart}",
        relief=start_unsupervised_script(app, before=f"PYTHONPATH={now}"),
        futile=f"mkdir -p {was}; printf 'VERSION = \"0\"\\ndef rate(level): return level\\n' "
        f"> {was}/{module}.py; {app.restart}",
    )
    build.traffic("/rate", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "process",
    "a library folder was moved away from PYTHONPATH; the import fails",
)
