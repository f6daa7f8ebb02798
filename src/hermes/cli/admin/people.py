"""`hermes people` and `hermes pairing`: who is who, and who may talk to Hermes in chats."""

import anyio
import click

from hermes.app.people import (
    add_person,
    approve_pairing,
    list_pairings,
    load_people,
    remove_person,
    revoke_pairing,
)
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.core.events.people import PairingApproved, PersonAdded
from hermes.core.people import People, PeopleHistory, Person, actor_name, resolve_people
from hermes.gateway.pairing import PendingPairing
from hermes.memory.store import open_journal, store_exists
from hermes.settings.load import LoadedSettings


@cli_command("hermes people list --json")
def list_(ctx: click.Context, as_json: bool = False) -> None:
    """List the people with their ids and groups, and where they are declared."""
    loaded = load_settings(ctx)
    people = _read_people(loaded)
    if as_json:
        print_json([_person_data(person, people, loaded) for person in people])
        return
    print_table(
        ("name", "ids", "groups", "declared in"),
        [
            (
                clean(person.name),
                clean(", ".join(actor_name(*each) for each in person.ids.items())),
                clean(", ".join(_groups_of(person, people, loaded))),
                _declaration(person),
            )
            for person in people
        ],
        empty="nobody has a name yet, so every user of this machine may answer; "
        "`hermes people add NAME unix:USER` names the first",
    )


@cli_command("""
hermes people add alice unix:alice telegram:123456789 --group oncall
hermes people add alice slack:U024BE7LH
""")
@click.argument("name")
@click.argument("ids", nargs=-1, metavar="CHANNEL:ID...")
@click.option("--group", "groups", multiple=True, metavar="NAME", help="A group of the policy.")
def add(
    ctx: click.Context, name: str, ids: tuple[str, ...], groups: tuple[str, ...], as_json: bool
) -> None:
    """Add a person, or more ids of one. Only ids that the platform never changes are safe.

    Channels: unix, telegram, slack, discord, whatsapp, signal, matrix, mattermost, email.
    As soon as there are people, nobody else can approve, acknowledge or close anything.
    """
    loaded = load_settings(ctx)

    async def record() -> PersonAdded:
        async with open_journal(loaded.store) as journal:
            return await add_person(loaded, journal, name, ids, groups)

    event = anyio.run(record)
    if as_json:
        person = _read_people(loaded).find(name)
        assert person is not None
        print_json(_person_data(person, _read_people(loaded), loaded))
        return
    listed = ", ".join(actor_name(*each) for each in event.ids) or ", ".join(event.groups)
    echo(clean(f"{name}: added {listed}"))


@cli_command("hermes people remove alice")
@click.argument("name")
def remove(ctx: click.Context, name: str, as_json: bool) -> None:
    """Remove a person that was added by a command; those of config.yaml are removed there."""
    loaded = load_settings(ctx)
    event = query_journal(loaded, lambda journal: remove_person(loaded, journal, name))
    if as_json:
        print_json({"name": event.name, "removed": True, "by": event.by})
    else:
        echo(clean(f"{event.name}: removed"))


@cli_command("hermes pairing list --json")
def pairings(ctx: click.Context, as_json: bool = False) -> None:
    """List who waits with a code, and who was let in."""
    loaded = load_settings(ctx)

    async def query() -> tuple[list[PendingPairing], list[PairingApproved]]:
        async with open_journal(loaded.store) as journal:
            return await list_pairings(loaded, journal)

    waiting, approved = anyio.run(query)
    rows = [
        {
            "state": "waiting",
            "channel": each.channel,
            "id": each.id,
            "name": "",
            "shown": each.shown,
            "since": each.asked_at.isoformat(),
            "by": "",
        }
        for each in waiting
    ]
    rows += [
        {
            "state": "paired",
            "channel": each.channel,
            "id": each.id,
            "name": each.name,
            "shown": each.shown,
            "since": each.at.isoformat(),
            "by": each.by,
        }
        for each in approved
    ]
    if as_json:
        print_json(rows)
        return
    print_table(
        ("state", "channel", "id", "name", "shown as", "by"),
        [
            tuple(clean(row[name]) for name in ("state", "channel", "id", "name", "shown", "by"))
            for row in rows
        ],
        empty="nobody is paired and nobody waits; who writes to Hermes in a chat gets a code",
    )


@cli_command("""
hermes pairing approve telegram 7KQ2M9XA
hermes pairing approve telegram 7KQ2M9XA --as alice
""")
@click.argument("channel")
@click.argument("code")
@click.option("--as", "name", default="", metavar="NAME", help="Also make them this person.")
def approve(ctx: click.Context, channel: str, code: str, name: str, as_json: bool) -> None:
    """Let in whoever got CODE on CHANNEL. Compare the id that it prints with theirs.

    Without --as they may talk to Hermes and never approve anything.
    """
    loaded = load_settings(ctx)

    async def record() -> PairingApproved:
        async with open_journal(loaded.store) as journal:
            return await approve_pairing(loaded, journal, channel.lower(), code, name)

    event = anyio.run(record)
    if as_json:
        print_json({"channel": event.channel, "id": event.id, "name": event.name, "by": event.by})
        return
    shown = f' ("{event.shown}")' if event.shown else ""
    also = f"is {event.name} and " if event.name else ""
    more = "" if event.name else "; approvals need a name (--as NAME)"
    echo(clean(f"{actor_name(event.channel, event.id)}{shown} {also}may talk to Hermes{more}"))


@cli_command("hermes pairing revoke telegram 123456789")
@click.argument("channel")
@click.argument("id")
def revoke(ctx: click.Context, channel: str, id: str, as_json: bool) -> None:
    """Whoever has ID on CHANNEL may no longer talk to Hermes there, and has no name there."""
    loaded = load_settings(ctx)
    event = query_journal(
        loaded, lambda journal: revoke_pairing(loaded, journal, channel.lower(), id)
    )
    if as_json:
        print_json({"channel": event.channel, "id": event.id, "revoked": True, "by": event.by})
    else:
        echo(clean(f"{actor_name(event.channel, event.id)} may no longer talk to Hermes"))


def _read_people(loaded: LoadedSettings) -> People:
    if not store_exists(loaded.store):
        return resolve_people(loaded.settings.people, PeopleHistory())
    return query_journal(loaded, lambda journal: load_people(loaded, journal))


def _person_data(person: Person, people: People, loaded: LoadedSettings) -> dict[str, object]:
    return {
        "name": person.name,
        "ids": dict(person.ids),
        "groups": _groups_of(person, people, loaded),
        "declared_in": _declaration(person),
    }


def _groups_of(person: Person, people: People, loaded: LoadedSettings) -> list[str]:
    groups = people.with_groups(loaded.settings.policy.groups)
    return [group for group, members in groups.items() if person.name in members]


def _declaration(person: Person) -> str:
    return "config.yaml" if person.in_settings else "a command"
