"""`hermes drill selftest`: does each scenario keep the rules that make it worth anything?"""

import anyio
import click

from hermes.cli.drill_run import backend_option, gym_settings
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say, table
from hermes.cli.progress import bar
from hermes.core.errors import SettingsError
from hermes.gym.backend import boxes
from hermes.gym.readiness import Readiness, lacking, listed, readiness
from hermes.gym.scenario import Scenario, find
from hermes.gym.selftest import SEEDS, Proof, prove_all
from hermes.gym.settings import GymSettings


@click.command(
    cls=Examples,
    examples="""
hermes drill selftest config-typo-after-edit --seeds 20
hermes drill selftest ./my-scenario
hermes drill selftest --all --jobs 8 --json
""",
)
@click.argument("scenarios", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every scenario that is installed.")
@click.option("--seeds", default=SEEDS, show_default=True, help="How many seeds of each.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=6, show_default=True, help="How many at once.")
@click.option("--window", default=0.0, show_default=True, help="Seconds for which a cure holds.")
@backend_option
@json_option
@click.pass_context
def selftest(
    ctx: click.Context,
    /,
    scenarios: tuple[str, ...],
    everything: bool,
    backend: str | None,
    as_json: bool,
    **options: float,
) -> int:
    """Prove of each: well before, broken after, mended by its reference fix, and by nothing else.

    Exit code 1 when one failed or is broken. Void episodes are shown and count as not proved.
    """
    gym = gym_settings(settings_for(ctx), backend)
    here = readiness(gym)
    if not here.boxes:
        raise SettingsError(f"no box can be made here: {'; '.join(here.missing)}")
    chosen, left_out = _chosen(scenarios, everything, here)
    first, count = int(options["first"]), int(options["seeds"])
    seeds = range(first, first + count)
    proofs = _prove(chosen, seeds, int(options["jobs"]), options["window"], gym)
    if as_json:
        emit_json({"proofs": proofs, "left_out": left_out})
    else:
        _tell(proofs, left_out)
    return int(any(not proof.ok for proof in proofs) or any("broken" in why for _, why in left_out))


def _chosen(
    names: tuple[str, ...], everything: bool, here: Readiness
) -> tuple[list[Scenario], list[tuple[str, str]]]:
    if not names and not everything:
        raise click.UsageError("name scenarios or folders, or say --all")
    left_out, chosen = list[tuple[str, str]](), [find(name) for name in names]
    for each in listed(here=here) if everything else ():
        if each.broken:
            left_out.append((each.name, f"broken: {each.broken}"))
        elif each.missing:
            left_out.append((each.name, "; ".join(each.missing)))
        else:
            chosen.append(find(each.name))
    for scenario in chosen:
        if missing := lacking(scenario, here):
            raise SettingsError(f"{scenario.name} cannot be played here: {'; '.join(missing)}")
    return chosen, left_out


def _prove(
    chosen: list[Scenario], seeds: range, jobs: int, window: float, gym: GymSettings
) -> list[Proof]:
    total = len(chosen) * len(seeds)
    ended: list[Proof] = []

    with bar("proving") as show:

        def done(proof: Proof) -> None:
            ended.append(proof)
            show(len(ended), total)

        async def work() -> list[Proof]:
            async with boxes(gym) as opener:
                return await prove_all(
                    chosen, list(seeds), jobs=jobs, window=window, done=done, opener=opener
                )

        return anyio.run(work)


def _tell(proofs: list[Proof], left_out: list[tuple[str, str]]) -> None:
    names = dict.fromkeys(proof.scenario for proof in proofs)
    rows = []
    for name in names:
        own = [proof for proof in proofs if proof.scenario == name]
        good, void = sum(proof.ok for proof in own), sum(bool(proof.void) for proof in own)
        slowest = max(proof.seconds for proof in own)
        rows.append((name, f"{good} of {len(own)}", void or "", f"{slowest:.1f} s"))
    table(("scenario", "proved", "void", "slowest"), rows)
    for proof in proofs:
        for problem in (*proof.problems, *([f"void: {proof.void}"] if proof.void else [])):
            say(f"✗ {proof.scenario} seed {proof.seed}: {problem}", fg="red")
    for name, why in left_out:
        note(f"{name} was left out: {why}")
    failed = sum(not proof.ok for proof in proofs)
    say(f"{len(proofs) - failed} of {len(proofs)} proved", bold=True)
