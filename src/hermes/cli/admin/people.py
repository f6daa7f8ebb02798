"""`hermes people`: who is who on the terminal, in chats and on the web."""

import anyio
import click

from hermes.app.people import add_person, load_people, remove_person
from hermes.cli.context import load_settings, query_journal
from hermes.cli.lazy import cli_command
from hermes.cli.output import echo, print_json, print_table
from hermes.cli.render.terminal_text import clean
from hermes.core.events.people import PersonAdded
from hermes.core.people import People, PeopleHistory, Person, actor_name, resolve_people
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
