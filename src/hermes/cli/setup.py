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
hermes setup --provider box --base-url http://127.0.0.1:8000/v1 --model my-model
""",
)
@click.option("--provider", default="", help="Who serves the model; see `hermes model list`.")
@click.option("--base-url", default="", metavar="URL", help="Where its API begins, if not known.")
@click.option("--key-stdin", is_flag=True, help="Read the key from stdin.")
@click.option("--model", default="", metavar="NAME", help="The model, as the provider calls it.")
@click.option("--backend", default="", help="The place of work: local, sandbox, docker, ssh…")
@click.option("--no-test", is_flag=True, help="Keep the key without trying it.")
@click.pass_context
def setup(
    ctx: click.Context,
    provider: str,
    base_url: str,
    key_stdin: bool,
    model: str,
    backend: str,
    no_test: bool,
) -> int:
    """Choose who answers and where commands run. What is already set is kept unless changed.

    The key goes to .env (mode 0600) after a tiny question proved that it works.
    """
    choice = Choice(
        provider=provider,
        base_url=base_url,
        key=sys.stdin.read().strip() if key_stdin else "",
        model=model,
        backend=backend,
    )
    if choice == Choice() and not no_test:
        if not sys.stdin.isatty():
            raise click.UsageError("nobody is here to answer; say --provider, --model, …")
        from hermes.cli.setup_wizard import ask

        return ask(overrides_of(ctx))
    choice = choice.complete()
    if not no_test:
        say(tried(choice))
    for line in keep(home(), choice):
        say(line)
    if choice.lacks_key():
        note(f"{choice.key_variable()} is not set yet: hermes config set {choice.key_variable()}")
    return exits.OK
