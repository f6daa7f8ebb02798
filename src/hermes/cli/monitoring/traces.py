"""`hermes traces`: what happened in a run or an incident as spans, and sending them."""

import anyio
import click

from hermes.app.journal.traces import read_run_spans, send_traces
from hermes.app.secret_redactor import SecretRedactor
from hermes.cli import exit_codes
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.integrations.otlp.spans import Span


@cli_command("hermes traces show incident-20261118-051205-a95ecc --json")
@click.argument("run")
def show(ctx: click.Context, run: str, as_json: bool) -> int:
    """Show the spans that RUN, a run or an incident, has so far. Nothing is sent.

    Exit codes: 0 shown, 3 there is no such run or incident.
    """
    loaded = load_settings(ctx)
    redact = SecretRedactor(loaded)
    spans = query_journal(loaded, lambda journal: read_run_spans(journal, run))
    if as_json:
        print_json([_span_data(each, redact) for each in spans])
        return exit_codes.OK
    depths = _depths(spans)
    print_table(
        ("began", "seconds", "span", "failed"),
        [
            (
                format_time(each.began),
                f"{(each.ended - each.began).total_seconds():.2f}",
                f"{'  ' * depths[each.id]}{clean(each.name)}",
                clip(clean(redact(each.error)), 60),
            )
            for each in sorted(spans, key=lambda span: (span.began, depths[span.id]))
        ],
        empty="no span has ended yet",
    )
    return exit_codes.OK


@cli_command("hermes traces send")
def send(ctx: click.Context, as_json: bool) -> int:
    """Send what happened since the last time to the collector of `otlp.url`.

    The watch and the gateway do this by themselves. The first time nothing is sent: traces begin
    with it.

    Exit codes: 0 sent, 1 the collector takes nothing now or refused something, 3 wrong settings.
    """
    loaded = load_settings(ctx)
    sent = anyio.run(send_traces, loaded)
    if as_json:
        print_json({"sent": sent.spans, "refused": sent.refused, "problem": sent.problem})
    else:
        lost = f", {sent.refused} were refused and are not sent again" if sent.refused else ""
        echo(f"{sent.spans} spans were sent{lost}")
        if sent.problem:
            note(clean(sent.problem))
    return exit_codes.FAILED if sent.refused else exit_codes.OK


def _depths(spans: list[Span]) -> dict[str, int]:
    by_id = {each.id: each for each in spans}
    found: dict[str, int] = {}
    for each in spans:
        depth, above = 0, by_id.get(each.parent)
        while above is not None and depth < len(spans):
            depth, above = depth + 1, by_id.get(above.parent)
        found[each.id] = depth
    return found


def _span_data(span: Span, redact: SecretRedactor) -> dict[str, object]:
    attributes = {
        key: redact(value) if isinstance(value, str) else value
        for key, value in span.attributes.items()
    }
    return {
        "trace": span.trace,
        "id": span.id,
        "parent": span.parent,
        "name": span.name,
        "began": span.began.isoformat(),
        "ended": span.ended.isoformat(),
        "error": redact(span.error),
        "attributes": attributes,
    }
