"""People: one name for each human, whichever entry point they use.

A person is known by the immutable ids of the platforms, never by a name that people can choose.
A person without a name acts as `channel:id`, such as `telegram:123`, and approves nothing.
"""

from collections.abc import Iterable, Iterator, Mapping

import msgspec

from hermes.core.errors import SettingsError
from hermes.core.events.people import (
    PairingApproved,
    PairingRevoked,
    PersonAdded,
    PersonRemoved,
)
from hermes.core.messages import Value

UNIX = "unix"
"""The channel of the users of this machine."""

PEOPLE_EVENT_KINDS = ("person.added", "person.removed", "pairing.approved", "pairing.revoked")
_RESERVED_NAMES = frozenset({"requester", "nobody", "somebody", "hermes", "person"})
_MAX_NAME_CHARS = 64


class PersonSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A person of the section `people`. Ids are those that the platform never changes."""

    unix: str = ""
    """User name on the machine of Hermes."""
    telegram: str | int = ""
    """Numeric user id."""
    slack: str = ""
    """Member id, such as U024BE7LH."""
    discord: str | int = ""
    """Numeric user id."""
    whatsapp: str | int = ""
    """Phone number with country code, digits only."""
    signal: str = ""
    """The uuid of the account."""
    matrix: str = ""
    """User id, such as @alice:example.org."""
    mattermost: str = ""
    """User id of 26 characters."""
    email: str = ""
    """Address; it can be forged, so it never approves anything."""
    groups: tuple[str, ...] = ()
    """Groups of the policy that the person belongs to, such as oncall."""


class Person(Value, kw_only=True, frozen=True):
    name: str
    ids: dict[str, str] = {}
    """Channel → id."""
    groups: tuple[str, ...] = ()
    in_settings: bool = False
    """Declared in the configuration file, which wins over commands."""


def actor_name(channel: str, id: str) -> str:
    """The actor of a person without a name."""
    return f"{channel}:{id}"


def is_unnamed(who: str) -> bool:
    """Return whether it is `channel:id` instead of the name of a person, which has no colon."""
    return ":" in who


def explain_unnamed(who: str) -> str:
    """Return why a person without a name may not answer, and what to do about it."""
    return (
        f"{who} is not one of the people that Hermes knows by name, so this does not count; "
        f"somebody who is can run: hermes people add NAME {who}"
    )


def name_problem(name: str) -> str:
    """Return what is wrong with the name of a person; empty when it can be used."""
    if not name or len(name) > _MAX_NAME_CHARS or name in _RESERVED_NAMES:
        return f"{name!r} cannot be the name of a person; choose another one"
    if not name.isprintable() or any(char in ":,/" or char.isspace() for char in name):
        return f"the name {name!r} has a space, a comma, a slash or a colon; leave them out"
    return ""


def normalize_id(channel: str, id: str | int) -> str:
    text = str(id).strip()
    return text.lower() if channel == "email" else text.removeprefix("+")


def persons_of_settings(section: Mapping[str, PersonSettings]) -> Iterator[Person]:
    for name, declared in section.items():
        ids = {
            channel: normalize_id(channel, value)
            for channel in _channel_fields()
            if (value := getattr(declared, channel)) != ""
        }
        yield Person(name=name, ids=ids, groups=declared.groups, in_settings=True)


def people_problems(section: Mapping[str, PersonSettings]) -> Iterator[tuple[str, str]]:
    """Names of persons in the settings, and what is wrong with them."""
    owners: dict[tuple[str, str], str] = {}
    for person in persons_of_settings(section):
        if problem := name_problem(person.name):
            yield person.name, problem
        for key in person.ids.items():
            owner = owners.setdefault(key, person.name)
            if owner != person.name:
                yield person.name, f"{actor_name(*key)} is already an id of {owner}"


class People:
    """The register of people. Persons of the settings win over those that commands added."""

    def __init__(
        self,
        declared: Iterable[Person] = (),
        added: Iterable[Person] = (),
        paired: Iterable[tuple[str, str]] = (),
    ) -> None:
        self._persons = {person.name: person for person in declared}
        self._paired = frozenset(paired)
        taken = {key for person in self._persons.values() for key in person.ids.items()}
        for person in added:
            known = self._persons.get(person.name)
            free = {channel: id for channel, id in person.ids.items() if (channel, id) not in taken}
            self._persons[person.name] = Person(
                name=person.name,
                ids={**free, **(known.ids if known else {})},
                groups=known.groups if known else person.groups,
                in_settings=known is not None,
            )
        self._names = {
            key: person.name for person in self._persons.values() for key in person.ids.items()
        }

    def __iter__(self) -> Iterator[Person]:
        return iter(self._persons.values())

    def __bool__(self) -> bool:
        """Return whether any person has a name; else every user of this machine answers as
        before."""
        return bool(self._persons)

    def __contains__(self, name: object) -> bool:
        return name in self._persons

    def find(self, name: str) -> Person | None:
        return self._persons.get(name)

    def name_of(self, channel: str, id: str) -> str:
        """The name of the person with this id; empty when no one has it."""
        return self._names.get((channel, normalize_id(channel, id)), "")

    def actor_of(self, channel: str, id: str) -> str:
        """The name of the person, else `channel:id`.

        A user of this machine keeps their user name as long as no people are known.
        """
        name = self.name_of(channel, id)
        if name or (channel == UNIX and not self):
            return name or id
        return actor_name(channel, normalize_id(channel, id))

    def is_paired(self, channel: str, id: str) -> bool:
        return (channel, normalize_id(channel, id)) in self._paired

    @property
    def paired(self) -> frozenset[tuple[str, str]]:
        """Channel and id of those who were let in with a code."""
        return self._paired

    def objection(self, who: str) -> str:
        """Return why this actor may not approve, acknowledge or close; empty when they may."""
        if is_unnamed(who):
            return explain_unnamed(who)
        if self and who not in self:
            return explain_unnamed(actor_name(UNIX, who))
        return ""

    def with_groups(self, groups: Mapping[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        """The groups of the policy, with the people who say that they belong to them."""
        found = {group: list(members) for group, members in groups.items()}
        for person in self:
            for group in person.groups:
                members = found.setdefault(group, [])
                if person.name not in members:
                    members.append(person.name)
        return {group: tuple(members) for group, members in found.items()}


class PeopleHistory:
    """Persons and pairings, folded from events in their order."""

    def __init__(self) -> None:
        self.added: dict[str, Person] = {}
        self.paired: dict[tuple[str, str], PairingApproved] = {}

    def apply(self, event: object) -> None:
        match event:
            case PersonAdded():
                self._add(event.name, dict(event.ids), event.groups)
            case PersonRemoved():
                self.added.pop(event.name, None)
            case PairingApproved():
                self.paired[event.channel, event.id] = event
                if event.name:
                    self._add(event.name, {event.channel: event.id}, ())
            case PairingRevoked():
                self.paired.pop((event.channel, event.id), None)
                self._take_id(event.channel, event.id)

    def _add(self, name: str, ids: Mapping[str, str], groups: Iterable[str]) -> None:
        for channel, id in ids.items():
            self._take_id(channel, id)
        known = self.added.get(name) or Person(name=name)
        self.added[name] = Person(
            name=name,
            ids={**known.ids, **ids},
            groups=tuple(dict.fromkeys((*known.groups, *groups))),
        )

    def _take_id(self, channel: str, id: str) -> None:
        """An id belongs to one person: the last who got it."""
        for person in list(self.added.values()):
            if person.ids.get(channel) == id:
                ids = {each: kept for each, kept in person.ids.items() if each != channel}
                self.added[person.name] = msgspec.structs.replace(person, ids=ids)


def resolve_people(section: Mapping[str, PersonSettings], history: PeopleHistory) -> People:
    """Raises `SettingsError` when the settings name an id twice."""
    problems = [f"people.{name}: {problem}" for name, problem in people_problems(section)]
    if problems:
        raise SettingsError("\n".join(problems))
    return People(persons_of_settings(section), history.added.values(), history.paired)


def parse_actor(text: str) -> tuple[str, str]:
    """Channel and id of `telegram:123`. Raises `SettingsError`."""
    channel, colon, id = text.partition(":")
    channel, id = channel.strip().lower(), normalize_id(channel.strip().lower(), id)
    if not (colon and channel and id):
        raise SettingsError(
            f"{text!r} is not an id of a person; write the channel and the id, such as "
            "telegram:123456789 or unix:alice"
        )
    if channel not in _channel_fields():
        raise SettingsError(
            f"there is no channel {channel!r}; there are: {', '.join(_channel_fields())}"
        )
    return channel, id


def _channel_fields() -> tuple[str, ...]:
    return tuple(name for name in PersonSettings.__struct_fields__ if name != "groups")
