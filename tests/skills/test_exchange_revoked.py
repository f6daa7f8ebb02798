"""Revocations, changed keys and old indexes: what one home says, and what others make of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from exchange_homes import BODY, a_home, a_skill, bundle, check, entries, fetched, imported, key
from msgspec.structs import replace

from hermes.app.exchange import Exchange, record_import
from hermes.app.exchange_revoked import Fallen, fall_back
from hermes.app.skills import states_in
from hermes.core.bus import Bus
from hermes.core.events.skills import SkillChanged
from hermes.memory.in_memory import InMemoryJournal
from hermes.settings.load import Loaded
from hermes.skills.compiler.registered import Registered, read_registered, register
from hermes.skills.exchange.archive import Refused
from hermes.skills.exchange.bundle import read_bundle
from hermes.skills.exchange.index import INDEX, PLACE, Index, grown_old, write_listing
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.sealing import seal
from hermes.skills.exchange.statements import Revocations, Rotation

pytestmark = pytest.mark.anyio
NOW = datetime.now(UTC)


class Subscriber:
    """A home with a journal, to which somebody's skill came and was trusted."""

    def __init__(self, folder: Path, name: str = "bob") -> None:
        self.loaded, self.exchange = a_home(folder, name)
        self.journal = InMemoryJournal()

    async def take(self, source: str) -> None:
        (data,) = await fetched(self.exchange, source)
        examined, placed = await imported(self.exchange, data)
        await record_import(self.journal, "skills", examined, placed, "bob")

    async def trust(self, skill: str = "old-logs") -> None:
        digest = self.exchange.keyring.known.installed[skill].digest
        step = SkillChanged(run="r", skill=skill, digest=digest, state="trusted")
        await self.journal.append(step)

    async def fallen(self) -> list[Fallen]:
        publish = Bus(self.journal).publish
        return await fall_back(
            self.exchange, self.loaded, self.journal, publish, run="skills", by="bob"
        )

    async def state(self, skill: str = "old-logs") -> str:
        return (await states_in(self.journal))[skill]


def published(loaded: Loaded, home: Exchange, site: Path, more: str = "") -> str:
    text = BODY.format(name="old-logs") + more
    skill = a_skill(loaded.home, text=text)
    home.publish(site, [(skill, home.export(skill))])
    return skill.digest


async def test_a_revoked_key_spreads_and_what_it_signed_loses_its_state(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    first = (site / PLACE / "old-logs-1.skill").read_bytes()
    await bob.take(str(site))
    await bob.trust()
    root = bob.exchange.root
    register(root, Registered(skill="old-logs", function="f", digest="d", description="x"))

    stolen = alice.seal().key
    alice.rotate()
    assert alice.revoke(keys=[stolen]) is True
    published(loaded, alice, site, "\n## More\n\nx\n")
    await bob.exchange.look(str(site))
    (fallen,) = await bob.fallen()
    assert (fallen.skill, fallen.before) == ("old-logs", "trusted")
    assert stolen[:12] in fallen.why and "alice" in fallen.why
    assert await bob.state() == "draft"
    assert read_registered(root) == []
    assert await bob.fallen() == [], "each falls once: a person may prove it again"
    with pytest.raises(Refused, match="revoked"):
        await imported(bob.exchange, first)
    await bob.take(str(site))
    assert bob.exchange.keyring.known.affected() == {}, "the new key's version is welcome"


async def test_a_revocation_reaches_those_who_never_ask_its_author(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob, carol = tmp_path / "site", Subscriber(tmp_path), Subscriber(tmp_path, "carol")
    digest = published(loaded, alice, site)
    for home in (bob, carol):
        await home.take(str(site))
    await carol.trust()
    alice.revoke(digests=[digest])
    alice.publish(site, [])
    await bob.exchange.look(str(site))
    bob.exchange.name("bob")
    bob.exchange.publish(tmp_path / "bobs", [])
    await carol.exchange.look(str(tmp_path / "bobs"))
    assert [each.skill for each in await carol.fallen()] == ["old-logs"]
    assert await carol.state() == "draft"


async def test_only_an_owner_or_an_issuer_takes_something_back(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    _, guard = a_home(tmp_path, "guard")
    alice.name("alice")
    guard.name("guard")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    digest = published(loaded, alice, site)
    await bob.take(str(site))
    await bob.trust()
    assert guard.revoke(keys=[alice.seal().key], digests=[digest]) is False, "not its own"
    assert guard.revoke(keys=[alice.seal().key], digests=[digest], announce=True) is True
    guard.publish(tmp_path / "guards", [])
    await bob.exchange.look(str(tmp_path / "guards"))
    bob.exchange.keyring.pin("guard", guard.seal().key)
    await bob.exchange.look(str(tmp_path / "guards"))
    assert await bob.fallen() == []
    assert await bob.state() == "trusted"

    bob.exchange.keyring.make_issuer("guard")
    await bob.exchange.look(str(tmp_path / "guards"))
    assert [each.skill for each in await bob.fallen()] == ["old-logs"]
    with pytest.raises(Refused, match="revoked"):
        await bob.exchange.look(str(site))


async def test_a_forged_revocation_in_an_index_is_left_aside(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    digest = published(loaded, alice, site)
    await bob.take(str(site))
    listed = Revocations(publisher="alice", number=9, digests=(digest,))
    forged = seal("revocations", listed, key(9))
    _, mallory = a_home(tmp_path, "mallory")
    mallory.name("mallory")
    mallory.publish(tmp_path / "bad", [], [forged])
    await bob.exchange.look(str(tmp_path / "bad"))
    assert bob.exchange.keyring.known.affected() == {}


def test_what_a_key_signed_before_it_was_replaced_stays_valid(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    early = read_bundle(bundle(1), check)
    early = replace(early, manifest=replace(early.manifest, made=NOW - timedelta(days=2)))
    keyring.pin("alice", key(1).key)
    change = Rotation(publisher="alice", new=key(2).key, at=NOW - timedelta(days=1))
    keyring.rotate(seal("rotation", change, key(1)), check)
    keyring.admit(early)
    keyring.accept(early, "old-logs")
    assert keyring.find("alice").key == key(2).key, "an old bundle brings no old key back"
    late = read_bundle(bundle(2, key(1), skill=entries(more="x")), check)
    with pytest.raises(Refused, match="was replaced"):
        keyring.admit(late)
    keyring.revoke(keys=(key(1).key,))
    assert list(keyring.known.affected()) == ["old-logs"]
    with pytest.raises(Refused, match="revoked"):
        keyring.admit(early)


async def test_an_index_from_the_past_is_refused(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    past = (site / PLACE / INDEX).read_bytes()
    await bob.take(str(site))
    published(loaded, alice, site, "\n## More\n\nx\n")
    await bob.exchange.look(str(site))
    (site / PLACE / INDEX).write_bytes(past)
    again = Exchange(bob.loaded)  # another process: what was seen is kept
    with pytest.raises(Refused, match="older than 2"):
        await again.look(str(site))


async def test_the_first_look_counts_before_anybody_is_pinned(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    past = (site / PLACE / INDEX).read_bytes()
    published(loaded, alice, site, "\n## More\n\nx\n")
    await bob.take(str(site))
    (site / PLACE / INDEX).write_bytes(past)
    with pytest.raises(Refused, match="hands out the past"):
        await bob.exchange.look(str(site))


async def test_two_indexes_of_one_number_are_refused(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    await bob.take(str(site))
    write_listing(site, Index(publisher="alice", number=1, made=NOW), [], alice.seal())
    with pytest.raises(Refused, match="two different indexes"):
        await bob.exchange.look(str(site))


@pytest.mark.parametrize(("days", "told"), [(3, ""), (40, "40 days old")])
def test_an_old_index_is_warned_about(days: int, told: str) -> None:
    index = Index(publisher="alice", number=1, made=NOW - timedelta(days=days))
    found = grown_old(index, warn_days=30, most_days=180, now=NOW)
    assert told in found and bool(told) == bool(found)


@pytest.mark.parametrize(("days", "why"), [(181, "181 days old"), (-3, "still to come")])
def test_a_very_old_index_or_one_of_tomorrow_is_refused(days: int, why: str) -> None:
    index = Index(publisher="alice", number=1, made=NOW - timedelta(days=days))
    with pytest.raises(Refused, match=why):
        grown_old(index, warn_days=30, most_days=180, now=NOW)


async def test_what_was_revoked_counts_even_when_the_index_is_too_old(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    digest = published(loaded, alice, site)
    await bob.take(str(site))
    listed = seal("revocations", Revocations(publisher="alice", number=1, digests=(digest,)),
                  alice.seal())  # fmt: skip
    old = Index(publisher="alice", number=2, made=NOW - timedelta(days=300))
    write_listing(site, old, [listed], alice.seal())
    with pytest.raises(Refused, match="300 days old"):
        await bob.exchange.look(str(site))
    assert list(bob.exchange.keyring.known.affected()) == ["old-logs"]
