"""`hermes drill bench`: how agents compare, with how sure that is."""

from pathlib import Path

import anyio
import click

from hermes.cli.drill_run import (
    backend_option,
    gym_settings,
    playable,
    prove_skill_option,
)
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say, table
from hermes.cli.progress import bar
from hermes.core.errors import HermesError, SettingsError
from hermes.gym.backend import boxes
from hermes.gym.bench import Standing, standings
from hermes.gym.bench import bench as run_bench
from hermes.gym.drill import Drilled, Terms
from hermes.gym.plot import svg, terminal
from hermes.gym.readiness import listed, readiness
from hermes.gym.recurrence import recurrences
from hermes.gym.scenario import Scenario, find
from hermes.gym.settings import GymSettings
from hermes.gym.stage import rules
from hermes.settings.load import Loaded

BASELINES = ("no-op", "restart-everything", "reference")
FIRST = ("agent", "drills", "void", "resolved", "root cause", "reward", "seconds")
COLUMNS = (*FIRST, "harm", "tools", "turns", "tokens")


@click.command(
    cls=Examples,
    examples="""
hermes drill bench                                 the three agents without a model
hermes drill bench --agent anthropic:claude-sonnet-5 --agent reference --seeds 3
hermes drill bench --agent openai:gpt-5 --ablate   with and without memory and skills
hermes drill bench --light --plot bench.svg --json > bench.json
""",
)
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
@click.option("--held-out", is_flag=True, help="The wordings kept apart for evaluation.")
@click.option("--no-memory", is_flag=True, help="Without notes, recall and learning.")
@click.option("--no-skills", is_flag=True, help="Without skills and playbooks.")
@click.option("--ablate", is_flag=True, help="Each model also without memory, and without skills.")
@backend_option
@prove_skill_option
@click.option("--plot", type=click.Path(path_type=Path), help="Draw it into this SVG file.")
@json_option
@click.pass_context
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
    loaded = settings_for(ctx)
    gym = gym_settings(loaded, options["backend"])
    chosen = _chosen(scenarios, str(options["group"]), gym, light=bool(options["light"]))
    drills = _drills(loaded, chosen, agents or BASELINES, gym, options)
    ranked = standings(drills)
    if plot is not None:
        _draw(plot, ranked, f"{len(chosen)} scenarios × {options['seeds']} seeds")
    if as_json:
        again = recurrences(drills)
        emit_json(
            {
                "standings": ranked,
                "recurrence": again,
                "drills": drills,
                "window": options["window"],
            }
        )
    else:
        _tell(ranked, drills)
        if plot is not None:
            note(f"drawn into {plot}")
    return 0


def _chosen(names: tuple[str, ...], group: str, gym: GymSettings, *, light: bool) -> list[Scenario]:
    if names:
        return [playable(name, gym) for name in names]
    here = readiness(gym)
    if not here.boxes:
        raise SettingsError(f"no box can be made here: {'; '.join(here.missing)}")
    found = []
    for each in listed(here=here):
        if each.broken or each.missing:
            note(f"{each.name} is left out: {each.broken or '; '.join(each.missing)}")
        elif (not group or each.group == group) and (each.light or not light):
            found.append(find(each.name))
    if not found:
        raise SettingsError("no scenario fits; see: hermes drill list")
    return found


def _drills(
    loaded: Loaded,
    chosen: list[Scenario],
    names: tuple[str, ...],
    gym: GymSettings,
    options: dict[str, object],
) -> list[Drilled]:
    from hermes.app.drill import NONE, Agent, agent_called, drill
    from hermes.app.skill_trial import skill_trial
    from hermes.models.reference import resolve

    turns = int(str(options["turns"]))
    kinds = [(not options["no_skills"], not options["no_memory"])]
    agents: dict[str, Agent] = {}
    for name in names:
        bare = name in BASELINES
        if not bare and name != NONE:
            resolve(name, loaded.settings.model)  # a name that nobody knows ends it here
        ablated = [(True, False), (False, True)] if options["ablate"] and not bare else []
        for skills, memory in [(True, True)] if bare else [*kinds, *ablated]:
            agent = agent_called(name, skills=skills, memory=memory, turns=turns)
            agents[agent.name] = agent
    terms = Terms(
        timeout=float(str(options["timeout"])),
        window=float(str(options["window"])),
        split="held-out" if options["held_out"] else "train",
    )
    first, count = int(str(options["first"])), int(str(options["seeds"]))
    total = len(chosen) * count * len(agents)
    ended: list[Drilled] = []

    book = rules()
    with bar("drilling") as show:

        def done(drilled: Drilled) -> None:
            ended.append(drilled)
            show(len(ended), total)

        async def work() -> list[Drilled]:
            seeds = list(range(first, first + count))
            jobs = int(str(options["jobs"]))
            async with boxes(gym) as opener:

                async def one(scenario: Scenario, seed: int, name: str) -> Drilled:
                    trial = skill_trial(scenario.name, split=terms.split, opener=opener)
                    return await drill(
                        loaded,
                        scenario,
                        seed,
                        agents[name],
                        terms,
                        opener=opener,
                        book=book,
                        learned=trial if options["prove_skill"] else None,
                    )

                return await run_bench(chosen, seeds, list(agents), one, jobs=jobs, done=done)

        return anyio.run(work)


def _draw(plot: Path, ranked: list[Standing], title: str) -> None:
    try:
        plot.write_text(svg(ranked, title), encoding="utf-8")
    except OSError as error:
        raise HermesError(f"cannot write {plot}: {error.strerror}") from error


def _tell(ranked: list[Standing], drills: list[Drilled]) -> None:
    table(
        COLUMNS,
        [
            (
                each.agent,
                each.drills,
                each.void or "",
                f"{each.resolved:.0%} ({_range(each.resolved_interval, 100)})",
                f"{each.root_cause:.0%}",
                f"{each.reward:.2f} ({each.reward_interval[0]:.2f}–{each.reward_interval[1]:.2f})",
                f"{each.seconds:.1f} ({_range(each.seconds_interval)})",
                each.collateral + each.breaches,
                f"{each.tool_calls:.1f}",
                f"{each.model_calls:.1f}",
                f"{each.tokens:,.0f}",
            )
            for each in ranked
        ],
    )
    say()
    say(terminal(ranked))
    for each in recurrences(drills):
        say(
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


def _range(interval: tuple[float, float], scale: float = 1.0) -> str:
    return f"{interval[0] * scale:.0f}–{interval[1] * scale:.0f}"
