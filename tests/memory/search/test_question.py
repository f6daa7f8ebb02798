"""What is read out of a question before anything is searched."""

import pytest

from hermes.memory.search.question import (
    is_contentless,
    is_identifier,
    named_speakers,
    parse_question,
    without_names,
)
from hermes.memory.search.text_analysis import Stemmer, split_words


@pytest.fixture
def stemmer() -> Stemmer:
    return Stemmer()


@pytest.mark.parametrize(
    "word",
    ["db-orders-2", "ECONNREFUSED", "FetchFailedException", "/var/run/x", "10.0.0.3", "a_b", "v7"],
)
def test_names_that_nobody_paraphrases_are_exact(word: str) -> None:
    assert is_identifier(word)


@pytest.mark.parametrize("word", ["server", "Caroline", "well-known", "TLS", "it's"])
def test_ordinary_words_are_not_exact(word: str) -> None:
    assert not is_identifier(word)


def test_words_that_say_nothing_are_left_out_and_the_rest_is_stemmed(stemmer: Stemmer) -> None:
    terms = parse_question("What were the parrots doing?", stemmer).terms
    assert [term.stems for term in terms] == [("parrot",)]


def test_a_quoted_string_is_one_exact_term(stemmer: Stemmer) -> None:
    first = parse_question('who saw "Too many open files"?', stemmer).terms[0]
    assert (first.raw, first.exact) == ("Too many open files", True)


@pytest.mark.parametrize(
    ("asked", "several"),
    [
        ("Which books has Priya read?", True),
        ("How many times did it fail?", True),
        ("What video games does he play?", True),
        ("What do both of them like?", True),
        ("When did the tree fall?", False),
        ("What does the fox say?", False),
        ("Why is the disk full?", False),
    ],
)
def test_questions_with_several_answers_are_told_apart(
    asked: str, several: bool, stemmer: Stemmer
) -> None:
    assert parse_question(asked, stemmer).wants_several is several


@pytest.mark.parametrize(
    ("asked", "time"),
    [
        ("When did it fall?", True),
        ("How long ago?", True),
        ("In which year?", True),
        ("Why?", False),
    ],
)
def test_questions_for_a_time_are_told_apart(asked: str, time: bool, stemmer: Stemmer) -> None:
    assert parse_question(asked, stemmer).wants_time is time


def test_a_named_speaker_leaves_the_text_that_is_embedded(stemmer: Stemmer) -> None:
    question = parse_question("What is Priya's puppy called?", stemmer)
    names = named_speakers(question, {"Priya", "Tom", ""})
    assert names == ["Priya"]
    assert without_names(question, names) == "What is puppy called?"


def test_a_question_that_is_only_a_name_keeps_it(stemmer: Stemmer) -> None:
    question = parse_question("Priya?", stemmer)
    assert without_names(question, ["Priya"]) == "Priya?"


def test_operators_words_for_one_thing_are_known(stemmer: Stemmer) -> None:
    (term,) = parse_question("autoscaling", stemmer).terms
    assert stemmer.stem("hpa") in term.synonyms


def test_chinese_and_japanese_runs_become_pairs() -> None:
    assert split_words("磁盘已满 now") == ["磁盘", "盘已", "已满", "now"]
    assert split_words("エラー42") == ["エラ", "ラー", "42"]


@pytest.mark.parametrize(
    "text", ["please continue", "Yes, go on!", "ok", "try it again, please", ""]
)
def test_a_request_without_content_is_known_as_such(text: str) -> None:
    assert is_contentless(text)


@pytest.mark.parametrize("text", ["continue with nginx", "go to db-1", "why?!  redis", "重启服务"])
def test_a_request_that_names_something_has_content(text: str) -> None:
    assert not is_contentless(text)
