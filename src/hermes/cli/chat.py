"""`hermes chat`: one question and its answer, or a conversation.

A question loads neither prompt_toolkit nor rich; the conversation lives in `cli.interactive`.
"""

import os
import stat
import sys
from typing import Any

import anyio
import click

from hermes.cli.lazy import Examples
from hermes.cli.loading import overrides_of, settings_for
from hermes.settings.load import Loaded

NEWEST = "newest"
EXAMPLES = """
hermes                                      a conversation
hermes chat -q "what fills my disk?"        one question
git diff | hermes chat -q "review this"     text piped in is added to the question
hermes chat -q "and now?" --continue        one more question in the latest conversation
hermes --resume                             go on where the latest conversation was cut off
"""


@click.command(cls=Examples, examples=EXAMPLES)
@click.option("-q", "--query", metavar="TEXT", help="Ask this one question and end.")
@click.option("-m", "--model", default="", metavar="REF", help="The model that answers.")
@click.option("-t", "--toolsets", default="", metavar="A,B", help="Only these sets of tools.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value=NEWEST,
    metavar="[RUN]",
    help="Go on with a conversation; without RUN, with the latest.",
)
@click.option("-c", "--continue", "latest", is_flag=True, help="Go on with the latest one.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")
@click.option("--quiet", is_flag=True, help="Print the answer and nothing else.")
@click.option(
    "--unattended", is_flag=True, help="Nobody watches: after a crash it goes on by itself."
)
@click.option("--no-stream", is_flag=True, help="Print the answer when it is whole.")
@click.pass_context
def chat(ctx: click.Context, /, **options: Any) -> int:
    """Talk to the agent.

    Without a question it opens a conversation; text piped in is a question, or is added to -q.
    """
    resume = NEWEST if options["latest"] else options["resume"]
    run = None if resume is None else "" if resume == NEWEST else resume
    question = _question(options["query"])
    alone = question or not _at_terminal(sys.stdin)
    if not alone and (options["as_json"] or options["quiet"]):
        raise click.UsageError("--json and --quiet are for one question: add -q TEXT")
    if alone and not question and run is None:
        raise click.UsageError("nothing was asked: add -q TEXT, or pipe a question in")
    loaded = settings_for(ctx)
    house = {
        "model": options["model"],
        "toolsets": tuple(filter(None, map(str.strip, options["toolsets"].split(",")))),
    }
    try:
        if alone:
            return _ask_once(loaded, question, run, options, house)
        from hermes.cli.interactive.chat import converse

        return anyio.run(converse, loaded, run, house)
    finally:
        from hermes.cli.look_back import look_back_later

        look_back_later(loaded, overrides_of(ctx))


def _ask_once(
    loaded: Loaded, question: str, run: str | None, options: dict[str, Any], house: dict[str, Any]
) -> int:
    from hermes.cli.render_once import Manner, answer_once

    manner = Manner(
        as_json=options["as_json"],
        quiet=options["quiet"],
        stream=_at_terminal(sys.stdout) and not options["no_stream"],
        unattended=options["unattended"],
    )
    return anyio.run(answer_once, loaded, question, run, manner, house)


def _question(query: str | None) -> str:
    return "\n\n".join(part for part in ((query or "").strip(), _piped_in()) if part)


def _piped_in() -> str:
    """What a pipe or a file holds. Anything else (a terminal, /dev/null) is not waited for."""
    if sys.stdin is None or sys.stdin.closed:
        return ""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    return sys.stdin.buffer.read().decode(errors="replace").strip()


def _at_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
