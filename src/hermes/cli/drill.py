"""`hermes drill`: real incidents in a box, for practice and for measuring."""

import click

from hermes.cli.lazy import ExampleGroup

TABLE = {
    "list": ("hermes.cli.drill_list:list_", "The scenarios, and which can be played here"),
    "show": ("hermes.cli.drill_list:show", "One scenario: its alert, its checks"),
    "run": ("hermes.cli.drill_run:run", "Let an agent answer one, and score it"),
    "selftest": ("hermes.cli.drill_selftest:selftest", "Let scenarios prove themselves"),
    "shell": ("hermes.cli.drill_shell:shell", "Try one by hand"),
    "score": ("hermes.cli.drill_shell:score", "Score the one that is open in a shell"),
    "bench": ("hermes.cli.drill_bench:bench", "Many scenarios, seeds and agents side by side"),
}


@click.group(
    cls=ExampleGroup,
    table=TABLE,
    examples="""
hermes drill list
hermes drill show config-typo-after-edit
hermes drill run config-typo-after-edit --seed 7 --model anthropic:claude-sonnet-5
hermes drill run ./my-scenario --model none --json
hermes drill selftest --all
hermes drill shell config-typo-after-edit
hermes drill bench --agent no-op --agent reference --seeds 3 --plot bench.svg
""",
)
def drill() -> None:
    """Break a host in a box, let somebody mend it, and see whether it holds.

    A scenario is named, or given as the path of its folder.
    """
