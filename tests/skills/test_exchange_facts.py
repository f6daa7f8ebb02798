from pathlib import Path

import pytest
from exchange_homes import a_home, key
from msgspec.structs import replace

from hermes.app.exchange_facts import hear_facts, say_facts, team_facts
from hermes.core.events.memory import FactEnded, FactNoted
from hermes.memory.facts.fact import fact_id
from hermes.memory.facts.keeping import FactKeeper
from hermes.memory.in_memory import InMemoryJournal
from hermes.skills.exchange.archive import Refused

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
    keeper, other = FactKeeper(tmp_path / "a.db", here), FactKeeper(tmp_path / "b.db", there)
    alice.name("alice")
    sealed = say_facts(alice, await team_facts(keeper))
    assert sealed is not None
    with pytest.raises(Refused, match="known"):
        await hear_facts(bob, sealed, other, there, "import")
    bob.keyring.pin("alice", alice.seal().key)
    with pytest.raises(Refused, match="signature"):
        forged = replace(sealed, body=sealed.body.replace("db-7", "db-8"))
        await hear_facts(bob, forged, other, there, "import")
    taken = await hear_facts(bob, sealed, other, there, "import")
    fact = await other.facts.get(FACT)
    assert taken.asserted == 1
    assert fact is not None
    assert (fact.trust, fact.origin) == ("imported", f"alice@{alice.seal().key[:8]}")
    assert (await hear_facts(bob, sealed, other, there, "import")).asserted == 0

    await here.append(FactEnded(run="r", fact=FACT))
    again = say_facts(alice, await team_facts(keeper))
    assert again is not None
    assert (await hear_facts(bob, again, other, there, "import")).retracted == 1
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
    keeper, other = FactKeeper(tmp_path / "a.db", here), FactKeeper(tmp_path / "b.db", there)
    mallory.name("mallory")
    sealed = say_facts(mallory, await team_facts(keeper))
    assert sealed is not None
    bob.keyring.pin("mallory", mallory.seal().key)
    assert (await hear_facts(bob, sealed, other, there, "import")).retracted == 0
    bob.keyring.revoke(keys=(mallory.seal().key,))
    with pytest.raises(Refused, match="revoked"):
        await hear_facts(bob, replace(sealed), other, there, "import")
    assert key().key != mallory.seal().key
    keeper.close()
    other.close()
