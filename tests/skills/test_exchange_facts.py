from pathlib import Path

import pytest
from exchange_homes import a_home, key
from msgspec.structs import replace

from hermes.app.skills.exchange import SkillExchange
from hermes.app.skills.team_facts import (
    FactImportResult,
    import_team_facts,
    list_team_facts,
    sign_team_facts,
)
from hermes.core.events.memory import FactEnded, FactForgotten, FactNoted
from hermes.memory.facts.fact import fact_id
from hermes.memory.facts.recorder import FactRecorder
from hermes.memory.facts.sharing import scope_change
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.skills.exchange.signed_statements import ExchangeError

pytestmark = pytest.mark.anyio
TEXT = "The orders database moved to db-7 in March"
FACT = fact_id("semantic", "", TEXT)


def noted(text: str, scope: str = "team") -> FactNoted:
    return FactNoted(
        run="r", fact=fact_id("semantic", "", text), memory="semantic", text=text, trust="person",
        scope=scope,  # type: ignore[arg-type]
    )  # fmt: skip


async def test_team_facts_travel_signed_and_are_believed_less(tmp_path: Path) -> None:
    _, alice = a_home(tmp_path, "alice")
    _, bob = a_home(tmp_path, "bob")
    here, there = InMemoryJournal(), InMemoryJournal()
    await here.append(noted(TEXT), noted("My own diary says hello", scope="own"))
    keeper, other = FactRecorder(tmp_path / "a.db", here), FactRecorder(tmp_path / "b.db", there)
    alice.name("alice")
    sealed = sign_team_facts(alice, await list_team_facts(keeper))
    assert sealed is not None
    with pytest.raises(ExchangeError, match="known"):
        await import_team_facts(bob, sealed, other, there, "import")
    bob.keyring.pin("alice", alice.signer().key)
    with pytest.raises(ExchangeError, match="signature"):
        forged = replace(sealed, body=sealed.body.replace("db-7", "db-8"))
        await import_team_facts(bob, forged, other, there, "import")
    taken = await import_team_facts(bob, sealed, other, there, "import")
    fact = await other.facts.get(FACT)
    assert taken.asserted == 1
    assert fact is not None
    assert (fact.trust, fact.origin) == ("imported", f"alice@{alice.signer().key[:8]}")
    assert (await import_team_facts(bob, sealed, other, there, "import")).asserted == 0

    await here.append(FactEnded(run="r", fact=FACT))
    again = sign_team_facts(alice, await list_team_facts(keeper))
    assert again is not None
    assert (await import_team_facts(bob, again, other, there, "import")).retracted == 1
    ended = await other.facts.get(FACT)
    assert ended is not None
    assert ended.state == "ended"
    keeper.close()
    other.close()


async def test_nobody_retracts_what_is_not_his_own(tmp_path: Path) -> None:
    _, mallory = a_home(tmp_path, "mallory")
    _, bob = a_home(tmp_path, "bob")
    here, there = InMemoryJournal(), InMemoryJournal()
    await there.append(noted(TEXT))
    await here.append(noted(TEXT), FactEnded(run="r", fact=FACT))
    keeper, other = FactRecorder(tmp_path / "a.db", here), FactRecorder(tmp_path / "b.db", there)
    mallory.name("mallory")
    sealed = sign_team_facts(mallory, await list_team_facts(keeper))
    assert sealed is not None
    bob.keyring.pin("mallory", mallory.signer().key)
    assert (await import_team_facts(bob, sealed, other, there, "import")).retracted == 0
    bob.keyring.revoke(keys=(mallory.signer().key,))
    with pytest.raises(ExchangeError, match="revoked"):
        await import_team_facts(bob, replace(sealed), other, there, "import")
    assert key().key != mallory.signer().key
    keeper.close()
    other.close()


async def test_what_is_no_longer_shared_or_was_forgotten_is_retracted(tmp_path: Path) -> None:
    _, alice = a_home(tmp_path, "alice")
    _, bob = a_home(tmp_path, "bob")
    here, there = InMemoryJournal(), InMemoryJournal()
    other = "Deploys stop on Fridays at 14:00"
    await here.append(noted(TEXT), noted(other))
    keeper, far = FactRecorder(tmp_path / "a.db", here), FactRecorder(tmp_path / "b.db", there)
    alice.name("alice")
    bob.keyring.pin("alice", alice.signer().key)
    assert await told(alice, keeper, bob, far, there) == FactImportResult(asserted=2)

    fact = await keeper.facts.get(FACT)
    assert fact is not None
    await here.append(scope_change(fact, "own", run="memory", actor="alice"))
    await here.append(FactForgotten(run="r", fact=fact_id("semantic", "", other)))
    assert (await told(alice, keeper, bob, far, there)).retracted == 2
    kept = await far.facts.get(FACT)
    assert kept is not None
    assert kept.state == "ended"
    keeper.close()
    far.close()


async def test_a_shared_fact_of_another_is_confirmed_and_not_claimed(tmp_path: Path) -> None:
    _, bob = a_home(tmp_path, "bob")
    _, carol = a_home(tmp_path, "carol")
    here, there = InMemoryJournal(), InMemoryJournal()
    await here.append(replace(noted(TEXT), origin="alice@12345678", trust="imported"))
    await there.append(replace(noted(TEXT, scope="own"), origin="alice@12345678", trust="imported"))
    keeper, far = FactRecorder(tmp_path / "b.db", here), FactRecorder(tmp_path / "c.db", there)
    bob.name("bob")
    carol.keyring.pin("bob", bob.signer().key)
    assert await told(bob, keeper, carol, far, there) == FactImportResult(confirmed=1)
    kept = await far.facts.get(FACT)
    assert kept is not None
    assert (kept.confirmations, kept.origin) == (1, "alice@12345678")
    keeper.close()
    far.close()


async def test_a_change_of_scope_is_no_confirmation_and_rules_do_not_undo_it(
    tmp_path: Path,
) -> None:
    journal = InMemoryJournal()
    keeper = FactRecorder(tmp_path / "a.db", journal)
    await journal.append(noted(TEXT, scope="own"))
    await keeper.facts.catch_up()
    before = await keeper.facts.get(FACT)
    assert before is not None
    await journal.append(scope_change(before, "team", run="memory", actor="me"))
    await journal.append(replace(noted(TEXT, scope="own"), trust="system"))
    await keeper.facts.catch_up()
    after = await keeper.facts.get(FACT)
    assert after is not None
    assert after.scope == "team"
    assert after.trust == before.trust
    assert after.confirmations == 1, "the rule's own sighting, and not the change of scope"
    keeper.close()


async def told(
    speaker: SkillExchange,
    own: FactRecorder,
    hearer: SkillExchange,
    far: FactRecorder,
    journal: InMemoryJournal,
) -> FactImportResult:
    sealed = sign_team_facts(speaker, await list_team_facts(own))
    assert sealed is not None
    return await import_team_facts(hearer, sealed, far, journal, "import")
