"""`hermes web login`, `sessions` and `logout`: who uses the dashboard."""

from datetime import UTC, datetime

import anyio
import click

from hermes.app.people import local_actor, user_name
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, note, print_json, print_table
from hermes.cli.render.lines import format_time
from hermes.cli.render.terminal_text import clean, clip
from hermes.core.errors import HermesError, SettingsError
from hermes.core.foreign_text import visible_line
from hermes.memory.store import JournalStore, open_journal, store_exists
from hermes.settings.load import LoadedSettings
from hermes.web.sessions import BrowserSession, SessionRegistry, create_login


@cli_command("""
hermes web login
hermes web login --as alice
""")
@click.option("--as", "person", default="", metavar="NAME", help="Who logs in; without it, you.")
def login(ctx: click.Context, person: str, as_json: bool) -> None:
    """Print a link that opens the dashboard: it works once, within 5 minutes."""
    loaded = load_settings(ctx)
    if not loaded.settings.web.dashboard:
        raise SettingsError("there is no dashboard: hermes config set web.dashboard true")

    async def publish() -> tuple[str, str]:
        async with open_journal(loaded.store) as journal:
            name = visible_line(person, 100) or await local_actor(loaded, journal)
            code, event = create_login(name, by=user_name())
            await journal.append(event)
            return code, name

    code, name = anyio.run(publish)
    link = f"{dashboard_address(loaded)}/login?code={code}"
    if as_json:
        print_json({"link": link, "person": name})
        return
    echo(link)
    note(f"as {name}; it works once, within 5 minutes, while `hermes up` runs")


def dashboard_address(loaded: LoadedSettings) -> str:
    """Where a browser reaches the dashboard."""
    web = loaded.settings.web
    if web.proxy and web.hosts:
        return f"https://{web.hosts[0]}"
    if web.cert:
        return f"https://{web.hosts[0] if web.hosts else '127.0.0.1'}:{web.port}"
    return f"http://127.0.0.1:{web.port}"


@cli_command("hermes web sessions --json")
@click.option("--all", "everything", is_flag=True, help="Also those that are over.")
def sessions(ctx: click.Context, everything: bool = False, as_json: bool = False) -> None:
    """List the sessions of browsers."""
    loaded, now = load_settings(ctx), datetime.now(UTC)
    known = query_journal(loaded, _read_sessions) if store_exists(loaded.store) else []
    found = [each for each in known if everything or each.state(now) == "valid"]
    if as_json:
        print_json([_session_data(each, now) for each in found])
        return
    print_table(
        ("session", "person", "state", "since", "browser"),
        [
            (
                each.id,
                each.person,
                each.state(now),
                format_time(each.started_at),
                clip(clean(each.browser), 50),
            )
            for each in found
        ],
        empty="nobody is logged in; `hermes web login` prints a link",
    )


@cli_command("""
hermes web logout 4f2a1c
hermes web logout --person alice
""")
@click.argument("id", default="")
@click.option("--person", default="", metavar="NAME", help="End all sessions of this person.")
def logout(ctx: click.Context, id: str, person: str, as_json: bool) -> None:
    """End a session at once: an id or its end."""
    if bool(id) == bool(person):
        raise click.UsageError("give a session or --person")
    loaded, now, who = load_settings(ctx), datetime.now(UTC), user_name()

    async def publish(journal: JournalStore) -> list[BrowserSession]:
        registry = SessionRegistry(journal)
        ended = [
            each
            for each in await registry.list_sessions()
            if each.state(now) == "valid"
            and (each.person == person if person else each.id.endswith(id) or each.id == id)
        ]
        for each in ended:
            await registry.end(each.id, by=who)
        return ended

    ended = query_journal(loaded, publish)
    if not ended:
        raise HermesError("there is no such session; `hermes web sessions` lists them")
    if as_json:
        print_json([{**_session_data(each, now), "state": "ended"} for each in ended])
    else:
        for each in ended:
            echo(clean(f"{each.id} of {each.person} is ended"))


async def _read_sessions(journal: JournalStore) -> list[BrowserSession]:
    return await SessionRegistry(journal).list_sessions()


def _session_data(session: BrowserSession, now: datetime) -> dict[str, object]:
    return {
        "id": session.id,
        "person": session.person,
        "state": session.state(now),
        "started_at": session.started_at.isoformat(),
        "used_at": session.used_at.isoformat(),
        "expires_at": session.expires_at.isoformat(),
        "browser": session.browser,
    }
