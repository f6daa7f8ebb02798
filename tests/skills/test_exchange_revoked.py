"""Revocations, changed keys and old indexes: what one home says, and what others make of it."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from exchange_homes import BODY, a_home, a_skill, bundle, check, entries, fetched, imported, key
from msgspec.structs import replace

from hermes.app.skills.exchange import (
    DemotedSkill,
    SkillExchange,
    demote_revoked_skills,
    record_import,
)
from hermes.app.skills.library import read_skill_states
from hermes.core.bus import Bus
from hermes.core.events.skills import SkillChanged
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.settings.load import LoadedSettings
from hermes.skills.compiler.registry import RegisteredSkill, read_registry, register_skill
from hermes.skills.exchange.bundle import read_bundle
from hermes.skills.exchange.index import (
    INDEX_FILE,
    INDEX_FOLDER,
    PublisherIndex,
    check_index_age,
    write_index_file,
)
from hermes.skills.exchange.keyring import Keyring
from hermes.skills.exchange.signed_statements import (
    ExchangeError,
    KeyRotation,
    RevocationList,
    sign_statement,
)

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
        digest = self.exchange.keyring.state.installed[skill].digest
        step = SkillChanged(run="r", skill=skill, digest=digest, state="trusted")
        await self.journal.append(step)

    async def fallen(self) -> list[DemotedSkill]:
        publish = Bus(self.journal).publish
        return await demote_revoked_skills(
            self.exchange, self.loaded, self.journal, publish, run="skills", by="bob"
        )

    async def state(self, skill: str = "old-logs") -> str:
        return (await read_skill_states(self.journal))[skill]


def published(loaded: LoadedSettings, home: SkillExchange, site: Path, more: str = "") -> str:
    text = BODY.format(name="old-logs") + more
    skill = a_skill(loaded.home, text=text)
    home.publish(site, [(skill, home.export(skill))])
    return skill.digest


async def test_a_revoked_key_spreads_and_what_it_signed_loses_its_state(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    first = (site / INDEX_FOLDER / "old-logs-1.skill").read_bytes()
    await bob.take(str(site))
    await bob.trust()
    root = bob.exchange.root
    register_skill(
        root, RegisteredSkill(skill="old-logs", function="f", digest="d", description="x")
    )

    stolen = alice.signer().key
    alice.rotate()
    assert alice.revoke(keys=[stolen]) is True
    published(loaded, alice, site, "\n## More\n\nx\n")
    await bob.exchange.read_index(str(site))
    (fallen,) = await bob.fallen()
    assert (fallen.skill, fallen.before) == ("old-logs", "trusted")
    assert stolen[:12] in fallen.why and "alice" in fallen.why
    assert await bob.state() == "draft"
    assert read_registry(root) == []
    assert await bob.fallen() == [], "each falls once: a person may prove it again"
    with pytest.raises(ExchangeError, match="revoked"):
        await imported(bob.exchange, first)
    await bob.take(str(site))
    assert bob.exchange.keyring.state.find_revoked_skills() == {}, (
        "the new key's version is welcome"
    )


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
    await bob.exchange.read_index(str(site))
    bob.exchange.name("bob")
    bob.exchange.publish(tmp_path / "bobs", [])
    await carol.exchange.read_index(str(tmp_path / "bobs"))
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
    assert guard.revoke(keys=[alice.signer().key], digests=[digest]) is False, "not its own"
    assert guard.revoke(keys=[alice.signer().key], digests=[digest], announce=True) is True
    guard.publish(tmp_path / "guards", [])
    await bob.exchange.read_index(str(tmp_path / "guards"))
    bob.exchange.keyring.pin("guard", guard.signer().key)
    await bob.exchange.read_index(str(tmp_path / "guards"))
    assert await bob.fallen() == []
    assert await bob.state() == "trusted"

    bob.exchange.keyring.set_issuer("guard")
    await bob.exchange.read_index(str(tmp_path / "guards"))
    assert [each.skill for each in await bob.fallen()] == ["old-logs"]
    with pytest.raises(ExchangeError, match="revoked"):
        await bob.exchange.read_index(str(site))


async def test_a_forged_revocation_in_an_index_is_left_aside(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    digest = published(loaded, alice, site)
    await bob.take(str(site))
    listed = RevocationList(publisher="alice", number=9, digests=(digest,))
    forged = sign_statement("revocations", listed, key(9))
    _, mallory = a_home(tmp_path, "mallory")
    mallory.name("mallory")
    mallory.publish(tmp_path / "bad", [], [forged])
    await bob.exchange.read_index(str(tmp_path / "bad"))
    assert bob.exchange.keyring.state.find_revoked_skills() == {}


def test_what_a_key_signed_before_it_was_replaced_stays_valid(tmp_path: Path) -> None:
    keyring = Keyring(tmp_path)
    early = read_bundle(bundle(1), check)
    early = replace(early, manifest=replace(early.manifest, made=NOW - timedelta(days=2)))
    keyring.pin("alice", key(1).key)
    change = KeyRotation(publisher="alice", new=key(2).key, at=NOW - timedelta(days=1))
    keyring.rotate(sign_statement("rotation", change, key(1)), check)
    keyring.check_bundle(early)
    keyring.record_bundle(early, "old-logs")
    assert keyring.find("alice").key == key(2).key, "an old bundle brings no old key back"
    late = read_bundle(bundle(2, key(1), skill=entries(more="x")), check)
    with pytest.raises(ExchangeError, match="was replaced"):
        keyring.check_bundle(late)
    keyring.revoke(keys=(key(1).key,))
    assert list(keyring.state.find_revoked_skills()) == ["old-logs"]
    with pytest.raises(ExchangeError, match="revoked"):
        keyring.check_bundle(early)


async def test_an_index_from_the_past_is_refused(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    past = (site / INDEX_FOLDER / INDEX_FILE).read_bytes()
    await bob.take(str(site))
    published(loaded, alice, site, "\n## More\n\nx\n")
    await bob.exchange.read_index(str(site))
    (site / INDEX_FOLDER / INDEX_FILE).write_bytes(past)
    again = SkillExchange(bob.loaded)  # another process: what was seen is kept
    with pytest.raises(ExchangeError, match="older than 2"):
        await again.read_index(str(site))


async def test_the_first_look_counts_before_anybody_is_pinned(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    past = (site / INDEX_FOLDER / INDEX_FILE).read_bytes()
    published(loaded, alice, site, "\n## More\n\nx\n")
    await bob.take(str(site))
    (site / INDEX_FOLDER / INDEX_FILE).write_bytes(past)
    with pytest.raises(ExchangeError, match="old index is being served"):
        await bob.exchange.read_index(str(site))


async def test_two_indexes_of_one_number_are_refused(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    published(loaded, alice, site)
    await bob.take(str(site))
    write_index_file(
        site, PublisherIndex(publisher="alice", number=1, made=NOW), [], alice.signer()
    )
    with pytest.raises(ExchangeError, match="two different indexes"):
        await bob.exchange.read_index(str(site))


@pytest.mark.parametrize(("days", "told"), [(3, ""), (40, "40 days old")])
def test_an_old_index_is_warned_about(days: int, told: str) -> None:
    index = PublisherIndex(publisher="alice", number=1, made=NOW - timedelta(days=days))
    found = check_index_age(index, warn_days=30, max_days=180, now=NOW)
    assert told in found and bool(told) == bool(found)


@pytest.mark.parametrize(("days", "why"), [(181, "181 days old"), (-3, "in the future")])
def test_a_very_old_index_or_one_of_tomorrow_is_refused(days: int, why: str) -> None:
    index = PublisherIndex(publisher="alice", number=1, made=NOW - timedelta(days=days))
    with pytest.raises(ExchangeError, match=why):
        check_index_age(index, warn_days=30, max_days=180, now=NOW)


async def test_what_was_revoked_counts_even_when_the_index_is_too_old(tmp_path: Path) -> None:
    loaded, alice = a_home(tmp_path, "alice")
    alice.name("alice")
    site, bob = tmp_path / "site", Subscriber(tmp_path)
    digest = published(loaded, alice, site)
    await bob.take(str(site))
    revoked = RevocationList(publisher="alice", number=1, digests=(digest,))
    listed = sign_statement("revocations", revoked, alice.signer())
    old = PublisherIndex(publisher="alice", number=2, made=NOW - timedelta(days=300))
    write_index_file(site, old, [listed], alice.signer())
    with pytest.raises(ExchangeError, match="300 days old"):
        await bob.exchange.read_index(str(site))
    assert list(bob.exchange.keyring.state.find_revoked_skills()) == ["old-logs"]
