"""Questions about a small world: what comes back, in which order, and when nothing does."""

from array import array
from collections.abc import Sequence
from datetime import timedelta

import pytest
from in_memory_recall import InMemoryRecallStore
from recall_passages import NOW, passages, store

from hermes.memory.search.line_index import Passage
from hermes.memory.search.recall import recall
from hermes.memory.settings import RecallSettings

pytestmark = pytest.mark.anyio


class Meanings:
    """Embeds by a table of topics: enough to tell the vectors' part in a score."""

    model = "topics"
    dimensions = 3
    topics = (
        ("pet", "puppy", "parrots", "animal", "hamster"),
        ("tree", "storm", "greenhouse", "garden"),
        ("certificate", "trust", "https", "expired"),
    )

    def embed(self, texts: Sequence[str]) -> Sequence[bytes]:
        return [self._vector(text.lower()) for text in texts]

    def _vector(self, text: str) -> bytes:
        held = [float(sum(word in text for word in topic)) for topic in self.topics]
        length = sum(x * x for x in held) ** 0.5 or 1.0
        return array("f", [x / length for x in held]).tobytes()


def with_vectors() -> InMemoryRecallStore:
    kept = store()
    embedder = Meanings()
    for passage in passages():
        kept.add_vector(passage.seq, embedder.model, embedder.embed([passage.text])[0])
    return kept


async def test_the_answer_beside_the_question_is_found_and_the_question_is_not_first() -> None:
    found = await recall(store(), "When does the new glass come?", now=NOW)
    assert found[0].id == "talk-3"
    assert "glass" in found[0].why


async def test_an_identifier_beats_its_near_twin() -> None:
    for asked, right in (("db-orders-2", "note-0"), ("what about db-orders-3?", "note-1")):
        found = await recall(store(), asked, now=NOW)
        assert found[0].id == right


async def test_an_error_string_in_quotes_is_found_as_it_stands() -> None:
    found = await recall(store(), 'where did we see "error 1062 duplicate key"?', now=NOW)
    assert [one.id for one in found][:1] == ["note-0"]


async def test_a_question_stays_in_the_session_that_it_names() -> None:
    found = await recall(store(), "Who owns the notification service?", session="talk", now=NOW)
    assert all(one.line.run == "talk" for one in found)
    found = await recall(store(), "Who owns the notification service?", session="notes", now=NOW)
    assert found[0].id == "note-2"


async def test_nothing_is_the_answer_to_what_was_never_said() -> None:
    assert await recall(store(), "quantum chromodynamics lattice", now=NOW) == []
    assert await recall(store(), "", now=NOW) == []
    assert await recall(store(), "?!  ...", now=NOW) == []


async def test_other_words_for_the_same_thing_are_found_by_meaning() -> None:
    kept = with_vectors()
    asked = "Which animal lives with her?"
    by_meaning = await recall(kept, asked, now=NOW, embedder=Meanings(), vectors=kept)
    assert {one.id for one in by_meaning[:3]} >= {"talk-4", "talk-6"}
    assert await recall(kept, asked, now=NOW) == []


async def test_what_the_named_person_said_comes_first() -> None:
    said = [
        Passage(seq=n, source=who, session=who, position=0, at=NOW, speaker=who, text="I like tea")
        for n, who in enumerate(("Ann", "Bob", "Cleo"))
    ]
    found = await recall(InMemoryRecallStore(said), "Does Bob like tea?", now=NOW)
    assert found[0].id == "Bob"
    assert "said by Bob" in found[0].why


async def test_vectors_of_another_model_are_never_compared() -> None:
    class Other(Meanings):
        model = "other"

    kept = with_vectors()
    found = await recall(
        kept, "Which animal lives with her?", now=NOW, embedder=Other(), vectors=kept
    )
    assert found == []


async def test_a_rare_name_leads_to_the_second_half_of_the_answer() -> None:
    asked = "Whom do I call about the notification service?"
    found = [one.id for one in await recall(store(), asked, session="notes", now=NOW)]
    assert found[:2] == ["note-2", "note-3"]


async def test_the_order_is_the_same_each_time() -> None:
    asked = "replica db-orders inventory"
    first = await recall(store(), asked, now=NOW)
    assert [one.line.seq for one in first] == [
        one.line.seq for one in await recall(store(), asked, now=NOW)
    ]


async def test_age_breaks_ties_but_never_buries_an_answer() -> None:
    twins = [
        Passage(seq=n, source=str(n), session="s", position=n * 10, at=at, text="the pump leaks")
        for n, at in enumerate((NOW - timedelta(days=400), NOW - timedelta(days=1)))
    ]
    kept = InMemoryRecallStore(twins)
    found = await recall(kept, "pump leaks", now=NOW)
    assert [one.id for one in found] == ["1", "0"]
    assert found[1].score > 0.85 * found[0].score
    fading = RecallSettings(decay="exponential")
    assert [one.id for one in await recall(kept, "pump leaks", now=NOW, settings=fading)] == ["1"]


async def test_a_text_of_megabytes_does_not_stall_the_question() -> None:
    big = passages()
    wide = Passage(
        seq=900, source="big", session="big", position=0, at=NOW, text="noise " * 1_000_000
    )
    found = await recall(InMemoryRecallStore([*big, wide]), "error 1062", now=NOW)
    assert found[0].id == "note-0"
