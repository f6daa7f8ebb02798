"""The parts of a score, each by itself."""

from datetime import UTC, datetime, timedelta

import pytest

from hermes.memory.search.line_index import Passage, PassageKind
from hermes.memory.search.question import QuestionTerm, parse_question
from hermes.memory.search.recall import decay_factor
from hermes.memory.search.scoring import (
    NEIGHBOUR_TEXT_WEIGHTS,
    SYNONYM_WEIGHT,
    CandidatePool,
    inverse_document_frequency,
    mentions_time,
    score_text,
    score_vectors,
)
from hermes.memory.search.text_analysis import Stemmer
from hermes.memory.settings import RecallSettings

AT = datetime(2026, 1, 1, tzinfo=UTC)


def turn(seq: int, text: str = "", *, speaker: str = "", hours: float = 0) -> Passage:
    return Passage(
        seq=seq,
        source=str(seq),
        session="s",
        position=seq,
        at=AT + timedelta(hours=hours),
        speaker=speaker or "ab"[seq % 2],
        text=text,
    )


def pool(*passages: Passage) -> CandidatePool:
    made = CandidatePool()
    made.add(passages)
    return made


def covered(passages: CandidatePool, asked: str) -> dict[int, float]:
    terms = parse_question(asked, Stemmer()).terms
    scores = score_text(passages, terms, [1.0] * len(terms), Stemmer())
    return {seq: score.covered for seq, score in scores.items()}


def test_a_word_counts_less_the_further_away_it_stands() -> None:
    made = pool(turn(0, "apples"), turn(1), turn(2), turn(3))
    assert covered(made, "apple") == {
        0: 1.0,
        1: NEIGHBOUR_TEXT_WEIGHTS[0],
        2: NEIGHBOUR_TEXT_WEIGHTS[1],
        3: 0.0,
    }


def test_notes_of_one_author_do_not_lend_words_to_each_other() -> None:
    made = pool(turn(0, "apples", speaker="x"), turn(1, speaker="x"), turn(2, speaker="y"))
    assert covered(made, "apple") == {0: 1.0, 1: 0.0, 2: 0.0}


def test_talks_hours_apart_are_not_neighbours() -> None:
    made = pool(turn(0, "apples"), turn(1, hours=7))
    assert covered(made, "apple")[1] == 0.0


def test_parts_of_an_identifier_count_half_and_only_in_order_of_truth() -> None:
    made = pool(turn(0, "on db-orders-2."), turn(10, "on db-orders-3"), turn(20, "xdb-orders-2x"))
    scores = covered(made, "db-orders-2")
    assert scores[0] == 1.0
    assert 0 < scores[10] < 0.5
    assert scores[20] < 1.0


def test_another_word_for_the_same_thing_counts_in_part() -> None:
    assert covered(pool(turn(0, "the hpa went wild")), "autoscaling") == {0: SYNONYM_WEIGHT}


def test_no_weight_at_all_is_no_score() -> None:
    term = QuestionTerm("x", ("x",), False)
    assert score_text(pool(turn(0, "x")), [term], [0.0], Stemmer())[0].covered == 0.0


def test_a_rare_word_weighs_more_and_a_wrong_count_does_no_harm() -> None:
    assert (
        inverse_document_frequency(1, 1000)
        > inverse_document_frequency(500, 1000)
        > inverse_document_frequency(1000, 1000)
        > 0
    )
    assert inverse_document_frequency(5000, 1000) == inverse_document_frequency(1000, 1000)


def test_meaning_is_smoothed_by_the_talk_around() -> None:
    made = pool(turn(0), turn(1), turn(2))
    scores = score_vectors(made, {0: 0.9, 1: 0.1, 2: 0.9})
    assert 0.1 < scores[1] < scores[0] < 0.9
    assert score_vectors(pool(turn(5)), {5: 0.7}) == {5: 0.7}
    assert score_vectors(made, {}) == {}


@pytest.mark.parametrize(
    ("kind", "left"),
    [("episodic", 0.95), ("semantic", 0.9 + 0.1 * 2 ** (-30 / 180)), ("declarative", 1.0)],
)
def test_each_kind_fades_at_its_own_pace(kind: PassageKind, left: float) -> None:
    passage = Passage(seq=1, source="1", session="s", position=1, at=AT, kind=kind)
    faded = decay_factor(passage, AT + timedelta(days=30), RecallSettings())
    assert faded == pytest.approx(left)


def test_age_counts_from_the_last_confirmation() -> None:
    now = AT + timedelta(days=300)
    confirmed = Passage(seq=1, source="1", session="s", position=1, at=AT, confirmed=now)
    assert decay_factor(confirmed, now, RecallSettings()) == 1.0


def test_the_pure_curve_halves_at_the_half_life_and_a_clock_that_jumped_adds_nothing() -> None:
    passage = turn(1)
    pure = RecallSettings(decay="exponential")
    assert decay_factor(passage, AT + timedelta(days=30), pure) == pytest.approx(0.5)
    assert decay_factor(passage, AT - timedelta(days=30), pure) == 1.0


def test_words_of_time_are_known() -> None:
    assert mentions_time("we met last Friday")
    assert mentions_time("in 2023")
    assert not mentions_time("a red door")
