"""`hermes doctor`: finds what is wrong, says how to correct it, and changes nothing."""

from collections.abc import Iterator

import click

from hermes.cli import checks, exits
from hermes.cli.checks import Finding, State
from hermes.cli.lazy import Examples
from hermes.cli.loading import home, overrides_of
from hermes.cli.output import emit_json, json_option, say
from hermes.cli.render_safe import clean
from hermes.core.errors import SettingsError
from hermes.settings.load import CONFIG, Loaded, examine
from hermes.settings.origins import Problem

MARKS = {
    "ok": ("✓", "green"),
    "absent": ("·", "blue"),
    "warning": ("!", "yellow"),
    "problem": ("✗", "red"),
}


@click.command(
    cls=Examples,
    examples="""
hermes doctor
hermes doctor --offline          do not try to reach the model's server
hermes doctor --json | jq '.findings[] | select(.state != "ok")'
""",
)
@click.option("--offline", is_flag=True, help="Do not try to reach any server.")
@json_option
@click.pass_context
def doctor(ctx: click.Context, offline: bool, as_json: bool) -> int:
    """Check everything Hermes needs, and every file it reads. Nothing is created or changed.

    Mistakes in configuration, policy, probe, tool and skill files are reported with file and line.
    Exit code 1 when there is a problem.
    """
    findings = list(_examine(ctx, offline))
    problems = [finding for finding in findings if finding.state == "problem"]
    if as_json:
        emit_json({"ok": not problems, "findings": findings})
        return exits.FAILED if problems else exits.OK
    for finding in findings:
        mark, color = MARKS[finding.state]
        say(click.style(mark, fg=color) + f" {finding.about}: {clean(finding.text)}")
        if finding.fix:
            say(f"    → {finding.fix}")
    say()
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    say(count if problems else "Everything that is needed is in order.")
    return exits.FAILED if problems else exits.OK


def _examine(ctx: click.Context, offline: bool) -> Iterator[Finding]:
    from hermes.cli.places import places, tried

    yield from checks.python()
    yield from checks.home(home())
    loaded, problems = _settings(ctx)
    for problem in problems:
        text = f"{problem.where}: {problem.what}" if problem.where else problem.what
        yield Finding("settings", "problem", text, problem.hint or "hermes config edit")
    if loaded is None:
        return
    file = loaded.home / CONFIG
    yield Finding("settings", "ok", str(file) if file.exists() else f"no {file}: defaults apply")
    for warning in loaded.warnings:
        yield Finding("settings", "warning", warning)
    yield from checks.journal(loaded.store)
    yield from checks.model(loaded, offline=offline)
    for place in places(loaded):
        wanted = place.name == loaded.settings.terminal.backend
        if wanted and not place.why:
            place = tried(loaded)
        state: State = "ok" if not place.why else "problem" if wanted else "absent"
        yield Finding("place", state, f"{place.name}: {place.why or 'ready'}")
    yield from checks.policy(loaded)
    yield from checks.probes(loaded)
    yield from checks.skills(loaded)
    yield from checks.tools(loaded)
    yield from checks.programs()


def _settings(ctx: click.Context) -> tuple[Loaded | None, list[Problem]]:
    try:
        return examine(overrides=overrides_of(ctx))
    except SettingsError as error:  # the files themselves cannot be read
        return None, [Problem("", str(error))]
