"""`hermes recall`: what the past has to say to a question, each answer with its source."""

import sys
from collections.abc import Sequence
from functools import partial
from typing import IO, Any

import anyio
import click
import msgspec

from hermes.app.recall import Past
from hermes.cli import exits
from hermes.cli.lazy import Examples
from hermes.cli.loading import settings_for
from hermes.cli.output import emit_json, json_option, note, say
from hermes.cli.render_safe import clean, clip
from hermes.cli.sessions_search import opened
from hermes.core.recall import Remembered


class Question(msgspec.Struct):
    query: str
    session: str | None = None
    limit: int | None = None


@click.command(
    cls=Examples,
    examples="""
hermes recall "how did we fix the full disk on web-2?"
hermes recall "who edited nginx.conf by hand?" --session run-20260302-1405 --json
echo '{"query": "what depends on redis?"}' | hermes recall --jsonl - --limit 10 --json
""",
)
@click.argument("query", nargs=-1)
@click.option("--limit", default=10, show_default=True, help="How many passages.")
@click.option("--session", metavar="RUN", help="Only this one.")
@click.option(
    "--jsonl",
    "lines",
    type=click.File("rb"),
    help="One question a line, `query` and maybe `session`; - is stdin. One answer a line.",
)
@json_option
@click.pass_context
def recall(
    ctx: click.Context,
    query: tuple[str, ...],
    limit: int,
    session: str | None,
    lines: IO[bytes] | None,
    as_json: bool,
) -> int:
    """Answer QUERY with the passages of earlier sessions that hold the answer, best first.

    With --jsonl each answer is one JSON object a line: `ids` are those of the source messages in
    order (the given id of an imported message, else its number in the journal), `passages` say
    more of each. Nothing that fits is an empty list.
    """
    if lines is None and not query:
        raise click.UsageError('which question? hermes recall "what fills the disk?"')
    with opened(settings_for(ctx)) as past:
        if lines is not None:
            return anyio.run(_stream, past, lines, limit, session)
        ask = partial(past.recall, " ".join(query), session=session, limit=limit)
        found = anyio.run(ask)
    if as_json:
        emit_json(_answer(found))
    else:
        _print(found)
    return exits.OK


async def _stream(past: Past, lines: IO[bytes], limit: int, session: str | None) -> int:
    worst = exits.OK
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            asked = msgspec.json.decode(line, type=Question)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            worst = exits.FAILED
            _write({"error": f"line {number}: {error}"})
            continue
        scope = asked.session if asked.session is not None else session
        most = limit if asked.limit is None else asked.limit
        found = await past.recall(asked.query, session=scope, limit=max(1, most))
        _write({"query": asked.query, **_answer(found)})
    return worst


def _answer(found: Sequence[Remembered]) -> dict[str, Any]:
    return {
        "ids": [one.id for one in found],
        "passages": [
            {
                "id": one.id,
                "seq": one.line.seq,
                "session": one.line.run,
                "speaker": one.line.speaker,
                "at": one.line.at,
                "score": one.score,
                "why": one.why,
                "text": one.line.text,
            }
            for one in found
        ],
    }


def _write(answer: dict[str, Any]) -> None:
    sys.stdout.write(msgspec.json.encode(answer).decode() + "\n")
    sys.stdout.flush()


def _print(found: Sequence[Remembered]) -> None:
    if not found:
        note("nothing in the past answers that")
    for number, one in enumerate(found):
        if number:
            say()
        line = one.line
        say(
            clean(f"{line.run} · {line.at.astimezone():%Y-%m-%d %H:%M} · {line.speaker}"),
            dim=True,
        )
        say(f"  {clip(clean(line.text), 400)}")
        say(clean(f"  {one.why} · hermes sessions show {line.run} --at {line.seq}"), dim=True)
