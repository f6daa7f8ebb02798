"""`hermes drill selftest` and `bench`: many scenarios with many seeds."""

from collections.abc import Sequence
from pathlib import Path

import anyio
import click

from hermes.cli.context import load_settings
from hermes.cli.drills.run import (
    backend_option,
    gym_settings,
    prove_skill_option,
    require_playable,
    require_supervisor,
    supervisor_option,
    without_playbooks_option,
    without_state_option,
)
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, print_table, progress_bar, write_file
from hermes.core.errors import SettingsError
from hermes.gym.benchmark import (
    AgentStanding,
    agent_standings,
    render_svg,
    render_text,
    skill_savings,
)
from hermes.gym.benchmark import run_benchmark as run_benchmark
from hermes.gym.box.openers import open_box_source
from hermes.gym.drill import DrillResult, DrillTerms
from hermes.gym.episodes.readiness import (
    GymReadiness,
    check_readiness,
    list_scenarios,
    missing_requirements,
)
from hermes.gym.episodes.responder_context import sandbox_rules
from hermes.gym.episodes.self_test import DEFAULT_SEED_COUNT, ScenarioProof, prove_scenarios
from hermes.gym.scenario import Scenario, find_scenario, scenario_reference
from hermes.gym.settings import GymSettings
from hermes.settings.load import LoadedSettings


@cli_command("""
hermes drill selftest config-typo-after-edit --seeds 20
hermes drill selftest ./my-scenario
hermes drill selftest cpu-runaway --supervisor runit
hermes drill selftest --all --jobs 8 --json
""")
@click.argument("scenarios", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="Every installed scenario.")
@click.option(
    "--seeds", default=DEFAULT_SEED_COUNT, show_default=True, help="How many seeds of each."
)
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=6, show_default=True, help="How many at once.")
@click.option("--window", default=0.0, show_default=True, help="Seconds for which a fix must hold.")
@backend_option
@supervisor_option
def selftest(
    ctx: click.Context,
    /,
    scenarios: tuple[str, ...],
    everything: bool,
    backend: str | None,
    supervisor: str,
    as_json: bool,
    **options: float,
) -> int:
    """Check each scenario: healthy before, broken after, and fixed only by its reference fix.

    Exit code 1 when one failed or is broken. Void episodes are shown and count as not proved.
    """
    gym = gym_settings(load_settings(ctx), backend)
    readiness = check_readiness(gym)
    if not readiness.boxes:
        raise SettingsError(f"no box can be created here: {'; '.join(readiness.missing)}")
    require_supervisor(supervisor, gym)
    chosen, left_out = _select_for_selftest(scenarios, everything, readiness, gym.scenarios)
    first, count = int(options["first"]), int(options["seeds"])
    seeds = range(first, first + count)
    proofs = _run_selftests(chosen, seeds, int(options["jobs"]), options["window"], gym, supervisor)
    if as_json:
        print_json({"proofs": proofs, "left_out": left_out})
    else:
        _print_selftests(proofs, left_out)
    return int(any(not proof.ok for proof in proofs) or any("broken" in why for _, why in left_out))


def _select_for_selftest(
    names: tuple[str, ...], everything: bool, readiness: GymReadiness, folders: Sequence[str]
) -> tuple[list[Scenario], list[tuple[str, str]]]:
    if not names and not everything:
        raise click.UsageError("name scenarios or folders, or use --all")
    left_out, chosen = list[tuple[str, str]](), [find_scenario(name, folders) for name in names]
    for each in list_scenarios(here=readiness, folders=folders) if everything else ():
        if each.broken:
            left_out.append((each.name, f"broken: {each.broken}"))
        elif each.missing:
            left_out.append((each.name, "; ".join(each.missing)))
        else:
            chosen.append(find_scenario(each.name, folders))
    for scenario in chosen:
        if missing := missing_requirements(scenario, readiness):
            raise SettingsError(f"{scenario.name} cannot run here: {'; '.join(missing)}")
    return chosen, left_out


def _run_selftests(
    chosen: list[Scenario],
    seeds: range,
    jobs: int,
    window: float,
    gym: GymSettings,
    supervisor: str,
) -> list[ScenarioProof]:
    total = len(chosen) * len(seeds)
    finished: list[ScenarioProof] = []

    with progress_bar("proving") as show:

        def done(proof: ScenarioProof) -> None:
            finished.append(proof)
            show(len(finished), total)

        async def work() -> list[ScenarioProof]:
            async with open_box_source(gym) as opener:
                return await prove_scenarios(
                    chosen,
                    list(seeds),
                    jobs=jobs,
                    window=window,
                    on_proof=done,
                    opener=opener,
                    supervisor=supervisor,
                )

        return anyio.run(work)


def _print_selftests(proofs: list[ScenarioProof], left_out: list[tuple[str, str]]) -> None:
    names = dict.fromkeys(proof.scenario for proof in proofs)
    rows = []
    for name in names:
        own = [proof for proof in proofs if proof.scenario == name]
        good, void = sum(proof.ok for proof in own), sum(bool(proof.void) for proof in own)
        slowest = max(proof.seconds for proof in own)
        rows.append((name, f"{good} of {len(own)}", void or "", f"{slowest:.1f} s"))
    print_table(("scenario", "proved", "void", "slowest"), rows)
    for proof in proofs:
        for problem in (*proof.problems, *([f"void: {proof.void}"] if proof.void else [])):
            echo(f"✗ {proof.scenario} seed {proof.seed}: {problem}", fg="red")
    for name, why in left_out:
        note(f"{name} was left out: {why}")
    failed = sum(not proof.ok for proof in proofs)
    echo(f"{len(proofs) - failed} of {len(proofs)} proved", bold=True)


BASELINE_AGENTS = ("no-op", "restart-everything", "reference")
MAIN_COLUMNS = ("agent", "drills", "void", "resolved", "root cause", "reward", "seconds")
BENCH_COLUMNS = (*MAIN_COLUMNS, "harm", "tools", "turns", "tokens")


@cli_command("""
hermes drill bench                                 the three agents without a model
hermes drill bench --agent anthropic:claude-sonnet-5 --agent reference --seeds 3
hermes drill bench --agent openai:gpt-5 --ablate   with and without memory and skills
hermes drill bench --agent none --without-playbooks   root causes by experiment alone
hermes drill bench --light --plot bench.svg --json > bench.json
""")
@click.argument("scenarios", nargs=-1)
@click.option("--agent", "agents", multiple=True, help="A baseline, `none`, or a model.")
@click.option("--seeds", default=2, show_default=True, help="How many seeds of each.")
@click.option("--first", default=0, show_default=True, help="The first seed.")
@click.option("--jobs", default=4, show_default=True, help="How many drills at once.")
@click.option("--turns", default=40, show_default=True, help="Answers a model may give in each.")
@click.option("--timeout", default=600.0, show_default=True, help="Seconds an agent has in each.")
@click.option("--window", default=2.0, show_default=True, help="Seconds for which it must hold.")
@click.option("--light", is_flag=True, help="Only light scenarios.")
@click.option("--group", default="", help="Only this group.")
@click.option("--held-out", is_flag=True, help="Use the texts reserved for evaluation.")
@click.option("--no-memory", is_flag=True, help="Without notes, recall and learning.")
@click.option("--no-skills", is_flag=True, help="Without skills and playbooks.")
@without_playbooks_option
@without_state_option
@click.option("--ablate", is_flag=True, help="Each model also without memory, and without skills.")
@backend_option
@prove_skill_option
@click.option("--plot", type=click.Path(path_type=Path), help="Write a chart to this SVG file.")
def bench(
    ctx: click.Context,
    /,
    scenarios: tuple[str, ...],
    agents: tuple[str, ...],
    plot: Path | None,
    as_json: bool,
    **options: object,
) -> int:
    """Let AGENTS answer many scenarios with many seeds; all scenarios when none is named."""
    loaded = load_settings(ctx)
    gym = gym_settings(loaded, options["backend"])
    chosen = _select_scenarios(scenarios, str(options["group"]), gym, light=bool(options["light"]))
    drills = _run_drills(loaded, chosen, agents or BASELINE_AGENTS, gym, options)
    ranked = agent_standings(drills)
    if plot is not None:
        title = f"{len(chosen)} scenarios × {options['seeds']} seeds"
        write_file(plot, render_svg(ranked, title))
    if as_json:
        again = skill_savings(drills)
        print_json(
            {
                "standings": ranked,
                "recurrence": again,
                "drills": drills,
                "window": options["window"],
            }
        )
    else:
        _print_ranking(ranked, drills)
        if plot is not None:
            note(f"chart written to {plot}")
    return 0


def _select_scenarios(
    names: tuple[str, ...], group: str, gym: GymSettings, *, light: bool
) -> list[Scenario]:
    if names:
        return [require_playable(name, gym) for name in names]
    readiness = check_readiness(gym)
    if not readiness.boxes:
        raise SettingsError(f"no box can be created here: {'; '.join(readiness.missing)}")
    found = []
    for each in list_scenarios(here=readiness, folders=gym.scenarios):
        if each.broken or each.missing:
            note(f"{each.name} is left out: {each.broken or '; '.join(each.missing)}")
        elif (not group or each.group == group) and (each.light or not light):
            found.append(find_scenario(each.name, gym.scenarios))
    if not found:
        raise SettingsError("no scenario matches; see: hermes drill list")
    return found


def _run_drills(
    loaded: LoadedSettings,
    chosen: list[Scenario],
    names: tuple[str, ...],
    gym: GymSettings,
    options: dict[str, object],
) -> list[DrillResult]:
    from hermes.app.drills.drill import NO_MODEL, DrillAgent, parse_agent, run_agent_drill
    from hermes.app.skills.gym_replay import make_skill_trial
    from hermes.models.catalog import resolve_reference

    turns = int(str(options["turns"]))
    kinds = [(not options["no_skills"], not options["no_memory"])]
    agents: dict[str, DrillAgent] = {}
    for name in names:
        bare = name in BASELINE_AGENTS
        if not bare and name != NO_MODEL:
            resolve_reference(name, loaded.settings.model)  # raises for an unknown model
        ablated = [(True, False), (False, True)] if options["ablate"] and not bare else []
        for skills, memory in [(True, True)] if bare else [*kinds, *ablated]:
            agent = parse_agent(
                name,
                skills=skills,
                memory=memory,
                turns=turns,
                playbooks=bare or not options["without_playbooks"],
                states=bare or not options["without_state"],
            )
            agents[agent.name] = agent
    terms = DrillTerms(
        responder_timeout_s=float(str(options["timeout"])),
        window_s=float(str(options["window"])),
        split="held-out" if options["held_out"] else "train",
    )
    first, count = int(str(options["first"])), int(str(options["seeds"]))
    total = len(chosen) * count * len(agents)
    finished: list[DrillResult] = []

    rules = sandbox_rules()
    with progress_bar("drilling") as show:

        def done(drilled: DrillResult) -> None:
            finished.append(drilled)
            show(len(finished), total)

        async def work() -> list[DrillResult]:
            seeds = list(range(first, first + count))
            jobs = int(str(options["jobs"]))
            async with open_box_source(gym) as opener:

                async def run_one(scenario: Scenario, seed: int, name: str) -> DrillResult:
                    reference = scenario_reference(scenario.name, gym.scenarios)
                    trial = make_skill_trial(reference, split=terms.split, opener=opener)
                    return await run_agent_drill(
                        loaded,
                        scenario,
                        seed,
                        agents[name],
                        terms,
                        opener=opener,
                        book=rules,
                        learned=trial if options["prove_skill"] else None,
                    )

                return await run_benchmark(
                    chosen, seeds, list(agents), run_one, jobs=jobs, on_result=done
                )

        return anyio.run(work)


def _print_ranking(ranked: list[AgentStanding], drills: list[DrillResult]) -> None:
    print_table(
        BENCH_COLUMNS,
        [
            (
                each.agent,
                each.drills,
                each.void or "",
                f"{each.resolved:.0%} ({_format_interval(each.resolved_interval, 100)})",
                f"{each.root_cause:.0%}",
                f"{each.reward:.2f} ({each.reward_interval[0]:.2f}–{each.reward_interval[1]:.2f})",
                f"{each.seconds:.1f} ({_format_interval(each.seconds_interval)})",
                each.collateral + each.breaches,
                f"{each.tool_calls:.1f}",
                f"{each.model_calls:.1f}",
                f"{each.tokens:,.0f}",
            )
            for each in ranked
        ],
    )
    echo()
    echo(render_text(ranked))
    for each in skill_savings(drills):
        echo(
            f"\n{each.agent}, {each.cases} cases resolved both times: with skills "
            f"×{each.seconds:.2f} the time and ×{each.tokens:.2f} the tokens of the first time; "
            f"{each.by_playbook} of them by playbook, {each.model_calls:g} model calls against "
            f"{each.first_calls:g}"
        )
    for drilled in drills:
        if drilled.void:
            note(f"void: {drilled.scenario} seed {drilled.seed}: {drilled.void}")
        elif drilled.ended.startswith("failed: "):
            note(f"{drilled.agent} at {drilled.scenario}: {drilled.ended}")


def _format_interval(interval: tuple[float, float], scale: float = 1.0) -> str:
    return f"{interval[0] * scale:.0f}–{interval[1] * scale:.0f}"
