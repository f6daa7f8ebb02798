"""The people of a home: those of the settings, and those that commands and pairings added."""

import os
import pwd
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hermes.core.errors import HermesError, PolicyDenied
from hermes.core.events.people import (
    PEOPLE_RUN,
    PairingApproved,
    PairingRevoked,
    PersonAdded,
    PersonRemoved,
)
from hermes.core.people import (
    PEOPLE_EVENT_KINDS,
    UNIX,
    People,
    PeopleHistory,
    actor_name,
    explain_unnamed,
    is_unnamed,
    name_problem,
    normalize_id,
    parse_actor,
    resolve_people,
)
from hermes.core.protocols import Journal
from hermes.settings.load import LoadedSettings

if TYPE_CHECKING:
    from hermes.gateway.pairing import PendingPairing

PAIRING_FOLDER = "pairing"


class PeopleRegister:
    """Knows who is who now: it reads on in the journal from where it was."""

    def __init__(self, loaded: LoadedSettings, journal: Journal) -> None:
        self._section = loaded.settings.people
        self._journal = journal
        self._history = PeopleHistory()
        self._last = 0
        self._people: People | None = None

    async def current(self) -> People:
        """Raises `SettingsError` when the settings name an id twice."""
        async for recorded in self._journal.read(after=self._last, kinds=PEOPLE_EVENT_KINDS):
            self._last, self._people = recorded.seq, None
            self._history.apply(recorded.event)
        if self._people is None:
            self._people = resolve_people(self._section, self._history)
        return self._people

    async def local_actor(self) -> str:
        """Return who the user of this process is: a person, or the user itself."""
        return (await self.current()).actor_of(UNIX, user_name())


async def load_people(loaded: LoadedSettings, journal: Journal) -> People:
    return await PeopleRegister(loaded, journal).current()


async def local_actor(loaded: LoadedSettings, journal: Journal) -> str:
    return await PeopleRegister(loaded, journal).local_actor()


def user_name() -> str:
    """The user of this process according to the system, not to a variable that anyone can set."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # a container may run as a number without a name
        return f"uid {os.getuid()}"


async def require_person(loaded: LoadedSettings, journal: Journal) -> str:
    """The person at this terminal. Raises `PolicyDenied` when people are
    known and this user is not among them."""
    people = await load_people(loaded, journal)
    who = people.actor_of(UNIX, user_name())
    if problem := people.objection(who):
        raise PolicyDenied(problem)
    return who


async def require_known(loaded: LoadedSettings, journal: Journal, who: str) -> str:
    """The actor, who may change what others rely on. Raises `PolicyDenied`."""
    if problem := (await load_people(loaded, journal)).objection(who):
        raise PolicyDenied(problem)
    return who


async def add_person(
    loaded: LoadedSettings,
    journal: Journal,
    name: str,
    ids: Iterable[str],
    groups: Iterable[str] = (),
) -> PersonAdded:
    """Add a person, or ids and groups to one. Raises `HermesError`.

    As soon as there are people, only one of them may name another.
    """
    people = await load_people(loaded, journal)
    who = people.actor_of(UNIX, user_name())
    if is_unnamed(who):
        raise PolicyDenied(f"{explain_unnamed(who)}, or add the line to `people` in config.yaml")
    if problem := name_problem(name):
        raise HermesError(problem)
    parsed = tuple(dict.fromkeys(map(parse_actor, ids)))
    known = people.find(name)
    if known is None and not parsed:
        raise HermesError(f"give an id of {name}, such as telegram:123456789 or unix:{name}")
    for channel, id in parsed:
        owner = people.name_of(channel, id)
        if owner and owner != name:
            raise HermesError(f"{actor_name(channel, id)} is already an id of {owner}")
    if not people and (UNIX, user_name()) not in parsed:
        raise HermesError(
            "as soon as there are people, only they can answer here: begin with yourself, "
            f"hermes people add NAME unix:{user_name()}"
        )
    if known is not None and known.in_settings and tuple(groups):
        raise HermesError(f"{name} is in config.yaml: change the groups there, under people.{name}")
    event = PersonAdded(run=PEOPLE_RUN, name=name, ids=parsed, groups=tuple(groups), by=who)
    await journal.append(event)
    return event


async def approve_pairing(
    loaded: LoadedSettings, journal: Journal, channel: str, code: str, name: str = ""
) -> PairingApproved:
    """Let in the person who got this code; `name` also gives them a name. Raises `HermesError`."""
    people, who = await load_people(loaded, journal), await require_person(loaded, journal)
    if name and (problem := name_problem(name)):
        raise HermesError(problem)
    if name and not people:
        raise HermesError(
            "as soon as there are people, only they can answer here: begin with yourself, "
            f"hermes people add NAME unix:{user_name()}"
        )
    from hermes.gateway.pairing import PairingCodes

    waiting = PairingCodes(loaded.home / PAIRING_FOLDER).redeem(channel, code)
    owner = people.name_of(channel, waiting.id)
    if name and owner and owner != name:
        raise HermesError(f"{actor_name(channel, waiting.id)} is already an id of {owner}")
    event = PairingApproved(
        run=PEOPLE_RUN,
        channel=channel,
        id=normalize_id(channel, waiting.id),
        name=name,
        shown=waiting.shown,
        by=who,
    )
    await journal.append(event)
    return event


async def revoke_pairing(
    loaded: LoadedSettings, journal: Journal, channel: str, id: str
) -> PairingRevoked:
    """Revoke a pairing: this person may no longer talk to Hermes there. Raises `HermesError`."""
    who, id = await require_person(loaded, journal), normalize_id(channel, id)
    if not (await load_people(loaded, journal)).is_paired(channel, id):
        raise HermesError(
            f"{actor_name(channel, id)} is not paired; `hermes pairing list` shows who is"
        )
    event = PairingRevoked(run=PEOPLE_RUN, channel=channel, id=id, by=who)
    await journal.append(event)
    return event


async def list_pairings(
    loaded: LoadedSettings, journal: Journal
) -> "tuple[list[PendingPairing], list[PairingApproved]]":
    """Return who waits with a code, and who was let in."""
    from hermes.gateway.pairing import PairingCodes

    history = PeopleHistory()
    async for recorded in journal.read(kinds=PEOPLE_EVENT_KINDS):
        history.apply(recorded.event)
    return PairingCodes(loaded.home / PAIRING_FOLDER).pending(), list(history.paired.values())


async def remove_person(loaded: LoadedSettings, journal: Journal, name: str) -> PersonRemoved:
    """Remove a person that a command added. Raises `HermesError`."""
    people = await load_people(loaded, journal)
    who = await require_person(loaded, journal)
    known = people.find(name)
    if known is None:
        listed = ", ".join(person.name for person in people) or "nobody yet"
        raise HermesError(f"there is no person {name!r}; there are: {listed}")
    if known.in_settings:
        raise HermesError(f"{name} is in config.yaml: remove people.{name} there")
    event = PersonRemoved(run=PEOPLE_RUN, name=name, by=who)
    await journal.append(event)
    return event
