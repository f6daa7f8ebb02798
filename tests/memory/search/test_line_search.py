"""Whatever was said or done is found by its words, however they are written."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from search_home import NOON, Home, came, imported, ran, said

from hermes.core.events.memory import FactNoted, RunSummarised
from hermes.core.events.runs import RunRenamed
from hermes.core.knowledge import OPEN_SESSION_HINT, RECALL_NOTE_PREFIX
from hermes.memory.search.query import parse_query

FOUND = [
    ("refusing connections", "the connection was refused by upstream"),  # stems
    ('"was refused"', "the connection was refused by upstream"),
    ("CONNECTION", "the connection was refused by upstream"),
    ("conn*", "the connection was refused by upstream"),
    ("get user name", "call getUserName first"),
    ("getUserName", "call getUserName first"),
    ("get_user_name", "call getUserName first"),
    ("http server", "an HTTPServerError came back"),
    ("max_connections", "set max_connections = 100"),
    ("connections", "set max_connections = 100"),
    ("10.0.0.3", "dial tcp 10.0.0.3:5432"),
    ("db-orders-2.internal", "host db-orders-2.internal is down"),
    ("/etc/nginx/nginx.conf", "open /etc/nginx/nginx.conf"),
    ("nginx.conf", "open /etc/nginx/nginx.conf"),
    ("exit 137", "it died\n[exit 137 · 0.2 s]"),
    ("日本", "東京は日本の首都です"),
    ("首都", "東京は日本の首都です"),
    ("京", "東京は日本の首都です"),
    ("방화벽", "방화벽 규칙을 변경했다"),
    ("cafe", "the café is closed"),
    ("straße", "an der Straße"),
    ("rm -rf", "it ran rm -rf /srv/cache"),
    ('"rm -rf"', "it ran rm -rf /srv/cache"),
    ('"find -name"', "it ran find -name core"),
    ("git push --force", "it ran git push --force origin"),
    ("kill -9", "it ran kill -9 4711"),
    ("this OR upstream", "the connection was refused by upstream"),
    ("connection (AND", "the connection was refused by upstream"),
]


@pytest.mark.parametrize(("words", "text"), FOUND)
def test_words_are_found_in_every_form(home: Home, words: str, text: str) -> None:
    home.write(said("something else entirely"), said(text), said("and more of it"))
    found = home.find(words)
    assert found.hits[0].line.text == text
    assert not found.relaxed


@pytest.mark.parametrize(
    ("words", "text"),
    [
        ('"refused was"', "the connection was refused by upstream"),
        ("10.0.0.3", "dial tcp 10.0.3.0:5432"),
        ("語版", "日本語"),
        ("upstream -refused", "the connection was refused by upstream"),
        ("upstream NOT refused", "the connection was refused by upstream"),
        ("conn", "the connection was refused by upstream"),
    ],
)
def test_what_does_not_fit_is_not_found(home: Home, words: str, text: str) -> None:
    home.write(said(text))
    assert home.texts(words) == []


@given(st.text(max_size=60))
def test_nothing_that_can_be_typed_breaks_the_question(text: str) -> None:
    query = parse_query(text)
    for term in (*query.terms, *query.excluded):
        assert term.expression.count('"') % 2 == 0


@pytest.mark.parametrize(
    "words", ['"', "'", "(", ")", "*", "-", "--", "a:b", "^x", "NEAR(a b)", "{x}:y", "+", "\0", "%"]
)
def test_odd_signs_are_never_an_error(home: Home, words: str) -> None:
    home.write(said("a b x y"))
    home.find(words)
    home.find(f"{words} a {words}")


def test_when_no_line_holds_all_words_those_that_hold_some_follow(home: Home) -> None:
    home.write(said("redis evicts keys"), said("postgres waits"), said("redis and postgres both"))
    found = home.find("postgres redis latency")
    assert found.relaxed
    assert found.hits[0].line.text == "redis and postgres both"
    assert len(found.hits) == 3


def test_the_same_error_with_other_numbers_is_found(home: Home) -> None:
    home.write(
        said("all fine"), came("Error: cannot open '/srv/a/17.log' after 3 tries (id 9f2c)\nok")
    )
    found = home.find("Error: cannot open '/var/b/4711.log' after 12 tries (id aa01)")
    assert found.hits[0].line.kind == "result"


def test_calls_results_titles_summaries_and_facts_are_found_and_told_apart(home: Home) -> None:
    home.write(
        said("please look at the zebra"),
        said("a zebra, yes", role="assistant"),
        ran("grep zebra /var/log/syslog"),
        came("zebra: 3 matches"),
        RunRenamed(run="r", title="the zebra hunt"),
        RunSummarised(run="r", summary="a zebra was hunted"),
        FactNoted(run="r", fact="f1", memory="semantic", text="zebra depends on savannah"),
        imported(1, "zebras are striped"),
    )
    kinds = {hit.line.kind: hit.line.role for hit in home.find("zebra").hits}
    assert set(kinds) == {"message", "call", "result", "title", "summary", "fact"}
    assert home.texts("zebra", kind="result") == ["zebra: 3 matches"]
    assert home.texts("zebra", kind="call") == ["grep zebra /var/log/syslog"]
    assert home.texts("zebra", role="tool") == ["zebra: 3 matches"]
    assert home.texts("zebra", session="talk") == ["zebras are striped"]


def test_filters_narrow_by_time_session_and_service(home: Home) -> None:
    home.write(
        said("disk of nginx full", run="a", at=NOON - timedelta(days=9)),
        said("disk of redis full", run="a/1", at=NOON - timedelta(days=2)),
        said("disk of redis full again", run="ab", at=NOON),
    )
    assert set(home.texts("disk", since=NOON - timedelta(days=3))) == {
        "disk of redis full again",
        "disk of redis full",
    }
    assert home.texts("disk", until=NOON - timedelta(days=3)) == ["disk of nginx full"]
    assert home.texts("disk", since=NOON + timedelta(days=1)) == []
    assert set(home.texts("disk", session="a")) == {"disk of redis full", "disk of nginx full"}
    assert home.texts("disk", service="nginx") == ["disk of nginx full"]
    assert len(home.texts("", session="a")) == 2


def test_a_clock_that_jumped_back_hides_nothing(home: Home) -> None:
    home.write(
        said("first disk", at=NOON),
        said("second disk", at=NOON - timedelta(days=400)),
        said("third disk", at=NOON + timedelta(hours=1)),
    )
    old = home.texts("disk", until=NOON - timedelta(days=300))
    assert old == ["second disk"]
    assert len(home.texts("disk", since=NOON - timedelta(days=1))) == 2


def test_a_hit_comes_with_its_neighbours_and_its_words_marked(home: Home) -> None:
    home.write(
        said("who ate the cake?", run="a"),
        said("noise of another session", run="b"),
        said("padding " * 60 + "the zebra ate all the cakes " + "padding " * 60, run="a"),
        said("thank you", run="a"),
    )
    hit = home.find("zebra cake").hits[0]
    assert hit.before is not None
    assert hit.before.text == "who ate the cake?"
    assert hit.after is not None
    assert hit.after.text == "thank you"
    marked = [hit.snippet[start:end] for start, end in hit.marks]
    assert marked == ["zebra", "cakes"]
    assert len(hit.snippet) < 260


def test_what_was_only_shown_again_is_not_found_twice(home: Home) -> None:
    home.write(
        said("the zebra lives in the savannah", run="a"),
        said(
            f"{RECALL_NOTE_PREFIX} from earlier sessions] the zebra lives in the savannah", run="b"
        ),
        came(f"a #1 zebra\n\n{OPEN_SESSION_HINT}", run="b"),
        said("you are Hermes, friend of the zebra", run="b", role="system"),
    )
    assert home.texts("zebra") == ["the zebra lives in the savannah"]


def test_a_very_long_text_is_found_by_its_beginning_and_its_end(home: Home) -> None:
    home.write(said("alphaword " + "filler " * 1_500_000 + "omegaword"))
    assert len(home.find("alphaword").hits) == 1
    assert len(home.find("omegaword").hits) == 1


def test_a_common_word_finds_the_newest_and_a_rare_one_with_it_finds_the_one(home: Home) -> None:
    home.write(*(said(f"common words number {n}", run=f"r{n % 7}") for n in range(3000)))
    home.write(said("common needle"), *(said(f"common later {n}") for n in range(500)))
    assert home.texts("common needle", limit=1) == ["common needle"]
    assert len(home.find("common", limit=10).hits) == 10
