"""`hermes chat`: one question and its answer, or a conversation.

One question loads neither prompt_toolkit nor rich; a conversation is in `cli.chat.interactive`.
"""

import os
import stat
import sys
from typing import Any

import anyio
import click

from hermes.cli.context import command_line_overrides, load_settings
from hermes.cli.lazy import cli_command
from hermes.settings.load import LoadedSettings

LATEST_RUN = "newest"
CHAT_EXAMPLES = """
hermes                                      a conversation
hermes chat -q "what fills my disk?"        one question
git diff | hermes chat -q "review this"     text piped in is added to the question
hermes chat -q "and now?" --continue        another question in the latest conversation
hermes --resume                             continue the latest conversation
"""


@cli_command(CHAT_EXAMPLES)
@click.option("-q", "--query", metavar="TEXT", help="Ask one question and exit.")
@click.option("-m", "--model", default="", metavar="REF", help="The model that answers.")
@click.option("-t", "--toolsets", default="", metavar="A,B", help="Only these sets of tools.")
@click.option(
    "--resume",
    is_flag=False,
    flag_value=LATEST_RUN,
    metavar="[RUN]",
    help="Continue a conversation; without RUN, the latest.",
)
@click.option("-c", "--continue", "latest", is_flag=True, help="Continue the latest one.")
@click.option("--json", "as_json", is_flag=True, help="Print the answer as one JSON object.")
@click.option("--quiet", is_flag=True, help="Print the answer and nothing else.")
@click.option("--unattended", is_flag=True, help="Resume automatically after a crash.")
@click.option("--no-stream", is_flag=True, help="Print the answer when it is complete.")
def chat(ctx: click.Context, /, **options: Any) -> int:
    """Talk to the agent.

    Without a question it opens a conversation; text piped in is a question, or is added to -q.
    """
    resume = LATEST_RUN if options["latest"] else options["resume"]
    run = None if resume is None else "" if resume == LATEST_RUN else resume
    question = _read_question(options["query"])
    one_question = question or not _is_terminal(sys.stdin)
    if not one_question and (options["as_json"] or options["quiet"]):
        raise click.UsageError("--json and --quiet are for one question: add -q TEXT")
    if one_question and not question and run is None:
        raise click.UsageError("there is no question: add -q TEXT, or pipe a question in")
    loaded = load_settings(ctx)
    application_options = {
        "model": options["model"],
        "toolsets": tuple(filter(None, map(str.strip, options["toolsets"].split(",")))),
    }
    try:
        if one_question:
            return _ask_once(loaded, question, run, options, application_options)
        from hermes.cli.chat.interactive import run_interactive_chat

        return anyio.run(run_interactive_chat, loaded, run, application_options)
    finally:
        from hermes.cli.background_runs import start_review_if_due

        start_review_if_due(loaded, command_line_overrides(ctx))


@cli_command("""
hermes acp                          started by an editor, which speaks ACP with it
hermes acp --model openrouter:...   another model than the configured one
""")
@click.option("-m", "--model", default="", metavar="REF", help="The model that answers.")
def acp(ctx: click.Context, model: str) -> None:
    """Talk with an editor over the Agent Client Protocol, on stdin and stdout.

    An editor starts it and ends it by closing stdin. What the rules ask about is asked in the
    editor; in the mode `look` nothing is changed. Sessions are kept and can be loaded again.
    """
    from hermes.app.editor import serve_editor

    anyio.run(serve_editor, load_settings(ctx), model)


def _ask_once(
    loaded: LoadedSettings,
    question: str,
    run: str | None,
    options: dict[str, Any],
    application_options: dict[str, Any],
) -> int:
    from hermes.cli.chat.one_shot import OneShotOptions, answer_once

    output_options = OneShotOptions(
        as_json=options["as_json"],
        quiet=options["quiet"],
        stream=_is_terminal(sys.stdout) and not options["no_stream"],
        unattended=options["unattended"],
    )
    return anyio.run(answer_once, loaded, question, run, output_options, application_options)


def _read_question(query: str | None) -> str:
    return "\n\n".join(part for part in ((query or "").strip(), _read_piped_input()) if part)


def _read_piped_input() -> str:
    """Read a pipe or a file; other inputs (a terminal, /dev/null) are ignored."""
    if sys.stdin is None or sys.stdin.closed:
        return ""
    try:
        kind = os.fstat(sys.stdin.fileno()).st_mode
    except (OSError, ValueError):
        return ""
    if not (stat.S_ISFIFO(kind) or stat.S_ISREG(kind) or stat.S_ISSOCK(kind)):
        return ""
    return sys.stdin.buffer.read().decode(errors="replace").strip()


def _is_terminal(stream: Any) -> bool:
    return stream is not None and not stream.closed and stream.isatty()
