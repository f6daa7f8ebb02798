"""`hermes setup`: provider, key, model and place of work, asked for or given."""

import sys

import click

from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import home, overrides_of
from hermes.cli.output import note, say
from hermes.cli.setup_choice import Choice, keep, tried


@click.command(
    cls=Examples,
    examples="""
hermes setup                                                asks everything
pass show openrouter | hermes setup --provider openrouter --key-stdin
hermes setup --provider ollama --model qwen3 --no-test      without a question
hermes setup --announce 0                                   restarts always wait for an answer
hermes setup --provider box --base-url http://127.0.0.1:8000/v1 --model my-model
""",
)
@click.option("--provider", default="", help="Who serves the model; see `hermes model list`.")
@click.option("--base-url", default="", metavar="URL", help="Where its API begins, if not known.")
@click.option("--key-stdin", is_flag=True, help="Read the key from stdin.")
@click.option("--model", default="", metavar="NAME", help="The model, as the provider calls it.")
@click.option("--backend", default="", help="The place of work: local, sandbox, docker, ssh…")
@click.option(
    "--announce",
    default="",
    metavar="SECONDS",
    help="How long a restart is announced before it proceeds without an answer; 0 always asks.",
)
@click.option("--no-test", is_flag=True, help="Keep the key without testing it.")
@click.pass_context
def setup(ctx: click.Context, /, key_stdin: bool, no_test: bool, **given: str) -> int:
    """Choose who answers, where commands run, and whether restarts wait for an answer.

    What is already set is kept unless changed. The key is tested with a tiny question as soon as
    it is given, and goes to .env (mode 0600). Without a network it is kept untested.
    """
    choice = Choice(key=sys.stdin.read().strip() if key_stdin else "", **given)
    if choice == Choice() and not no_test:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is here to answer; say --provider, --model, …")
        from hermes.cli.setup_wizard import ask

        return ask(overrides_of(ctx))
    choice = choice.complete()
    if choice.reference and not no_test:
        say(tried(choice))
    for line in keep(home(), choice):
        say(line)
    if choice.lacks_key():
        note(f"{choice.key_variable()} is not set yet: hermes config set {choice.key_variable()}")
    return exits.OK
