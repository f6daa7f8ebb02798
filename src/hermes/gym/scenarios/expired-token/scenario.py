"""A service sends an expired token; the job that renews it requests one with no lifetime."""

from hermes.gym.scenario_builder import (
    PYTHON_COMMAND,
    HostFile,
    ScenarioBuilder,
    build_scenario,
    other_settings_unchanged,
)


def draw(build: ScenarioBuilder) -> None:
    rng = build.rng
    app, issuer = build.draw_services(2)
    mark = rng.token()
    key = rng.pick(("lifetime_hours", "valid_hours", "ttl_hours", "hours"))
    right, wrong = rng.number(12, 96), rng.pick(("0", "0.0", "-1", "-24"))
    token = rng.pick(
        (f"/etc/{app.name}/token", f"{app.data}/access.token", f"/var/lib/{app.name}.tok")
    )
    tool = f"/opt/{rng.pick(('tokens', 'auth', 'renewal'))}-{app.name}"
    conf = f"{tool}/renew.conf"
    run = f"{PYTHON_COMMAND} {tool}/renew.py {conf}"
    build.start(issuer, build.source("issuer.py.in"), why=build.wording("why"))
    build.settings(
        issuer, port=issuer.port, secret=f"{issuer.data}/secret", mark=mark, verify_end="yes"
    )
    build.file(f"{issuer.data}/secret", rng.token(40), mode=0o600)
    build.start(
        app,
        build.source("request.py.in") + build.source("client.py.in"),
        after=issuer.unit,
        refused=build.wording("refused"),
    )
    build.settings(app, port=app.port, upstream=issuer.name, upstream_port=issuer.port, token=token)
    build.file(
        f"{tool}/renew.py",
        build.render(build.source("request.py.in") + build.source("renew.py.in", key=key)),
    )
    values = f"name={app.name}\nissuer_port={issuer.port}\ntoken={token}\n{key}={right}\n"
    renewal = build.file(conf, values)
    build.file(f"/etc/cron.d/renew-{app.name}", f"7 * * * * root {run} >/dev/null 2>&1\n")
    build.folders(token.rpartition("/")[0])
    # Gets the first token when the host starts; retries until the upstream answers.
    unit = build.source("first-token.service.in").format(
        service=app.name, after=issuer.unit, run=run
    )
    build.units(HostFile(path=f"{app.name}-token.service", text=unit))

    put = f"sed -i 's/^{key}=.*/{key}={{}}/' {conf}"
    build.alert("P1")
    build.symptoms(app.http("its data comes", "/data", mark))
    build.healthy(app.runs())
    build.inject(build.changes(), build.history(f"vi {conf}"), f"{put.format(wrong)} && {run}")
    build.trigger(cron="renew.py")
    build.collateral(
        issuer.undisturbed("the upstream was left alone"),
        ("the settings of the upstream", issuer.conf),
        ("the secret of the upstream", issuer.data),
        ("the settings of the service", app.conf),
        ("the timetable", "/etc/cron.d"),
        other_settings_unchanged("the other settings of the renewal", renewal, key),
    )
    build.fault(
        component=(token, conf, app.name, "token"),
        mechanism="expired, expiry, lifetime, stale token, 401",
        value=(key, f"{key}={wrong}", token),
    )
    build.responses(
        reference=(put.format(right), run),
        relief=(
            f"sed 's/^{key}=.*/{key}=8/' {conf} > /tmp/once.conf",
            f"{PYTHON_COMMAND} {tool}/renew.py /tmp/once.conf",
        ),
        shortcut=(issuer.put("verify_end", "no"), issuer.restart),
    )
    build.traffic("/data", "/health")


SCENARIO = build_scenario(
    __file__,
    draw,
    "change",
    "the renewal asks for tokens without any life; the upstream answers 401",
    held_out=True,
)
