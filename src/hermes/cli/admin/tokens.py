"""`hermes token add`, `list` and `revoke`: who may use the API."""

from datetime import UTC, datetime, timedelta
from typing import cast

import anyio
import click

from hermes.app.people import user_name
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.events.access import ACCESS_RUN, AccessRight, TokenRevoked
from hermes.core.foreign_text import visible_line
from hermes.core.run_ids import find_unique
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.plumbing.units import parse_duration
from hermes.web.tokens import ALL_RIGHTS, ApiToken, TokenRegistry, create_token

DEFAULT_RIGHTS = ("read", "chat")
DEFAULT_VALIDITY = "90d"
NEVER = "never"


def _parse_validity(ctx: click.Context, parameter: click.Parameter, text: str) -> datetime | None:
    if text == NEVER:
        return None
    try:
        seconds = parse_duration(text)
        return datetime.now(UTC) + timedelta(seconds=seconds)
    except (ValueError, OverflowError) as error:
        raise click.BadParameter(f"{text!r} is not like 12h, 30d or {NEVER}") from error


@cli_command("""
hermes token add --as alice
hermes token add --as alice --right read --right approve --right act --for 30d
hermes token add --as grafana --right alert --label "alerts of Grafana" --json
""")
@click.option(
    "--as", "person", default="", metavar="NAME", help="Who acts with it; without it, you."
)
@click.option(
    "--right",
    "rights",
    multiple=True,
    type=click.Choice(ALL_RIGHTS),
    help="What it allows; may be repeated. Without it: read and chat.",
)
@click.option(
    "--for",
    "expires_at",
    default=DEFAULT_VALIDITY,
    show_default=True,
    callback=_parse_validity,
    metavar="TIME",
    help="How long it is valid: 12h, 30d, never.",
)
@click.option("--label", default="", metavar="TEXT", help="What it is for.")
def add(
    ctx: click.Context,
    person: str,
    rights: tuple[str, ...],
    expires_at: datetime | None,
    label: str,
    as_json: bool,
) -> None:
    """Create a token for the API. It is shown once; the journal keeps its digest."""
    loaded = load_settings(ctx)
    text, event = create_token(
        visible_line(person, 100) or user_name(),
        cast("tuple[AccessRight, ...]", rights or DEFAULT_RIGHTS),
        expires_at=expires_at,
        by=user_name(),
        label=visible_line(label, 200),
    )

    async def publish() -> None:
        async with open_journal(loaded.store) as journal:
            await journal.append(event)

    anyio.run(publish)
    if as_json:
        print_json(
            {
                "id": event.token,
                "token": text,
                "person": event.person,
                "rights": list(event.rights),
                "expires_at": expires_at.isoformat() if expires_at else None,
            }
        )
        return
    echo(text)
    end = f"until {format_time(expires_at)}" if expires_at else "without an end"
    note(
        f"{event.token}: {', '.join(event.rights)} as {event.person}, {end}. Keep it now:"
        " it is not shown again."
    )


@cli_command("hermes token list --json")
@click.option("--all", "everything", is_flag=True, help="Also expired and revoked ones.")
def list_(ctx: click.Context, everything: bool = False, as_json: bool = False) -> None:
    """List the tokens of the API, without the tokens themselves."""
    loaded, now = load_settings(ctx), datetime.now(UTC)
    known = query_journal(loaded, _read_tokens) if store_exists(loaded.store) else []
    found = [each for each in known if everything or each.state(now) == "valid"]
    if as_json:
        print_json([_token_data(each, now) for each in found])
        return
    print_table(
        ("token", "person", "rights", "state", "until", "label"),
        [
            (
                each.id,
                each.person,
                ", ".join(each.rights),
                each.state(now),
                format_time(each.expires_at) if each.expires_at else NEVER,
                clip(clean(each.label), 40),
            )
            for each in found
        ],
        empty="no token; `hermes token add --as NAME` creates one",
    )


@cli_command("hermes token revoke 4f2a1c")
@click.argument("id")
def revoke(ctx: click.Context, id: str, as_json: bool) -> None:
    """Revoke the token ID at once: an id, or its beginning or end."""
    loaded, who = load_settings(ctx), user_name()

    async def publish(journal: JournalStore) -> ApiToken:
        token = find_unique(
            await _read_tokens(journal),
            id,
            lambda each: each.id == id,
            lambda each: bool(id) and (each.id.startswith(id) or each.id.endswith(id)),
            id_of=lambda each: each.id,
            kind="token",
            list_command="hermes token list --all",
        )
        if token.revoked_at is None:
            await journal.append(TokenRevoked(run=ACCESS_RUN, token=token.id, by=who))
        return token

    token = query_journal(loaded, publish)
    if as_json:
        print_json({**_token_data(token, datetime.now(UTC)), "state": "revoked"})
    else:
        echo(clean(f"{token.id} of {token.person} is revoked"))


async def _read_tokens(journal: JournalStore) -> list[ApiToken]:
    return await TokenRegistry(journal).list_tokens()


def _token_data(token: ApiToken, now: datetime) -> dict[str, object]:
    return {
        "id": token.id,
        "person": token.person,
        "rights": list(token.rights),
        "state": token.state(now),
        "created_at": token.created_at.isoformat(),
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
        "label": token.label,
    }
