"""A setting was edited on the host and differs from what is declared in git."""

import hashlib

from hermes.gym.scenario_builder import (
    HostFile,
    ScenarioBuilder,
    build_scenario,
    requests_script,
    script_check,
    served_by_unit,
    service_unit,
)


def fast_import_stream(files: list[HostFile], people: list[str], subjects: list[str]) -> str:
    """The history in the form that `git fast-import` reads."""
    lines = []
    for number, (who, subject) in enumerate(zip(people, subjects, strict=True)):
        at = 1_780_000_000 + number * 86_400
        lines += ["commit refs/heads/main", f"committer {who} <{who}@ops.example> {at} +0000"]
        lines += [f"data {len(subject.encode())}", subject]
        for file in files[: number + 1]:
            lines += [f"M 100644 inline {file.path.lstrip('/')}"]
            lines += [f"data {len(file.text.encode())}", file.text]
    return "\n".join(lines) + "\ndone\n"


def draw(build: ScenarioBuilder) -> None:
    rng, app = build.rng, build.draw_service()
    key = rng.pick(("max_requests", "rate_limit", "burst", "requests_per_minute", "ceiling"))
    right, wrong, mark = rng.number(20_000, 90_000), rng.number(0, 1), rng.token()
    repo = rng.pick(("/srv/declared", "/srv/infra", "/opt/config-repo", "/var/lib/desired"))
    secret, who = f"/etc/{app.name}-secret/key", rng.pick(("mira", "jonas", "tomas", "priya"))
    values = {"mark": mark, "secret_file": secret, "timeout": rng.number(5, 60), key: right}
    conf = app.settings(port=app.port, **values)
    readme = HostFile(path="/README", text=f"What {build.host} should be.\n")
    other = build.neighbour.layout.name
    subjects = [f"{app.name}: settings", f"{other}: settings", "say what this is"]
    people = [rng.pick(("mira", "lena", "ci")) for _ in subjects]
    history = fast_import_stream([conf, build.neighbour.files[1], readme], people, subjects)
    folder = f"/opt/{app.name}-declared"
    command, bundle = f"{folder}/checkout.sh", f"{folder}/history.fi"
    build.start(app, build.source("service.py.in", key=key), refused=build.wording("refused"))
    build.files(conf)
    build.file(secret, rng.token(32), mode=0o600)
    build.script(command, build.source("checkout.sh.in").format(repo=repo, stream=bundle))
    build.file(bundle, history)
    build.place_neighbour()
    checkout = service_unit("declared-state", command, more="Type=oneshot\nRemainAfterExit=yes")
    once = checkout.text.replace("Restart=on-failure\nRestartSec=200ms\n", "")
    build.units(HostFile(path=checkout.path, text=once))
    build.host_options(users=(who,))

    digest = hashlib.sha256(conf.text.encode()).hexdigest()
    clean = script_check(
        "the declared state is untouched",
        f"git -C {repo} show HEAD:{app.conf.lstrip('/')} | sha256sum;"
        f" git --no-optional-locks -C {repo} status --porcelain;"
        f" git -C {repo} rev-list --count HEAD",
        contains=f"{digest}  -\n{len(subjects)}\n",
    )
    edit = app.put(key, wrong)
    build.alert("P2")
    build.symptoms(app.http("requests are let in", "/items", mark))
    build.healthy(
        script_check("the settings are those declared", f"sha256sum {app.conf}", contains=digest),
        clean,
        served_by_unit(app.unit, app.port),
    )
    build.inject(
        build.history(f"su {who}", edit, app.restart),
        f"mkdir -p /home/{who} && {{ date -d '-{rng.number(9, 90)} min' '+#%s';"
        f' echo "{edit}"; }} >> /home/{who}/.bash_history',
        app.put_and_restart(key, wrong),
        f"sleep 0.1; {requests_script(app.port, '/items', 2)}",
    )
    build.collateral(clean, ("the secret that is not in git", secret), ("the program", app.program))
    build.fault(
        component=(app.conf, app.name, app.conf.rpartition("/")[2]),
        mechanism=f"drift, manual edit, differs from git, edited by hand, {key}",
        value=(f"{key}{app.sign}{wrong}", key, who),
    )
    build.responses(
        reference=(
            f"git -C {repo} diff --no-index --stat {repo}{app.conf} {app.conf} || true",
            f"cp {repo}{app.conf} {app.conf} && {app.restart}",
        ),
        futile=app.restart,
        shortcut=(
            f"rm -rf /etc/{app.name}-secret; cp {repo}{app.conf} {app.conf}",
            f"install -D -m 600 /dev/stdin {secret} <<< new && {app.restart}",
        ),
    )


SCENARIO = build_scenario(
    __file__,
    draw,
    "change",
    "a setting edited by hand differs from what git declares for this host",
    needs=("git",),
)
