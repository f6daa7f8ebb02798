"""`hermes sessions search|import|reindex` and `hermes recall` as their users run them."""

import json
from collections.abc import Sequence

import anyio
import msgspec
import pytest
from hermes_command import Hermes

from hermes.cli import exit_codes
from hermes.core.events import Event
from hermes.core.events.runs import MessageAdded, RunDeleted, RunStarted
from hermes.core.events.tools import ToolFinished, ToolRequested
from hermes.core.messages import Message, ToolCall, ToolResult
from hermes.memory.journal.sqlite_journal import SqliteJournal

RUN = "run-20260101-120000-aaaaaa"
TALKS = [
    ("d1", "ops", "Ada", "The pager went off because nginx refused connections on web-2."),
    ("d2", "ops", "Bo", "Restarting it did not help; the disk under /var/log was full."),
    ("d3", "ops", "Ada", "I truncated access.log and nginx came back at once."),
    ("e1", "pets", "Cy", "My tortoise eats dandelions every morning."),
    ("e2", "pets", "Di", "Lovely! Mine prefers clover."),
]


def lines(talks: Sequence[tuple[str, str, str, str]] = TALKS) -> str:
    names = ("id", "session", "speaker", "text")
    at = "2026-03-02T09:00:00Z"
    return "".join(json.dumps({**dict(zip(names, t, strict=True)), "at": at}) + "\n" for t in talks)


def write(hermes: Hermes, *events: Event) -> None:
    async def append() -> None:
        async with SqliteJournal.open(hermes.home / "journal.db") as journal:
            await journal.append(*events)

    hermes.home.mkdir(exist_ok=True)
    anyio.run(append)


@pytest.fixture
def talked(hermes: Hermes) -> Hermes:
    done = hermes("sessions", "import", "--jsonl", "-", stdin=lines())
    assert done.returncode == exit_codes.OK, done.stderr
    return hermes


def test_a_search_says_what_it_leaves_out(talked: Hermes) -> None:
    found = talked("sessions", "search", "nginx -connections")
    assert "access.log" in found.stdout
    assert "left out: lines with connections" in found.stderr
    assert "left out" not in talked("sessions", "search", "nginx").stderr


def test_a_search_shows_the_hit_its_neighbours_and_how_to_open_it(talked: Hermes) -> None:
    found = talked("sessions", "search", "disk", "full")
    assert "the disk under /var/log was full" in found.stdout
    assert "nginx refused" in found.stdout
    assert "access.log" in found.stdout
    opening = next(line for line in found.stdout.splitlines() if "--at" in line).split()
    shown = talked(*opening[1:])
    assert "▶" in shown.stdout
    assert "the disk under /var/log was full" in shown.stdout


def test_a_search_as_json_says_where_each_hit_is_from(talked: Hermes) -> None:
    found = json.loads(talked("sessions", "search", "nginx", "--json").stdout)
    lines = [hit["line"] for hit in found["hits"]]
    assert {line["source"] for line in lines} == {"d1", "d3"}
    assert all(line["run"] == "ops" for line in lines)
    only = talked("sessions", "search", "nginx", "--limit", "1", "--json").stdout
    assert len(json.loads(only)["hits"]) == 1


def test_the_words_of_tool_calls_and_results_are_found(hermes: Hermes) -> None:
    write(
        hermes,
        RunStarted(run=RUN, origin="cli", task="disk"),
        MessageAdded(run=RUN, message=Message(role="user", text="what fills the disk?")),
        ToolRequested(run=RUN, call=ToolCall("1", "terminal", {"command": "du -sh /srv/data"})),
        ToolFinished(run=RUN, result=ToolResult(call_id="1", content="93G /srv/data")),
    )
    found = json.loads(hermes("sessions", "search", "/srv/data", "--json").stdout)
    assert {hit["line"]["kind"] for hit in found["hits"]} == {"call", "result"}
    one = hermes("sessions", "search", "93G", "--kind", "result", "--session", "latest", "--json")
    assert len(json.loads(one.stdout)["hits"]) == 1
    write(hermes, RunDeleted(run=RUN))
    assert json.loads(hermes("sessions", "search", "/srv/data", "--json").stdout)["hits"] == []


def test_time_filters_understand_dates_and_spans(talked: Hermes) -> None:
    since = talked("sessions", "search", "nginx", "--since", "2026-03-01", "--json")
    assert len(json.loads(since.stdout)["hits"]) == 2
    until = talked("sessions", "search", "nginx", "--until", "2026-03-01", "--json")
    assert json.loads(until.stdout)["hits"] == []
    assert (
        talked("sessions", "search", "nginx", "--since", "soonish").returncode == exit_codes.USAGE
    )


def test_a_search_without_words_or_a_home_says_what_to_do(hermes: Hermes) -> None:
    assert hermes("sessions", "search").returncode == exit_codes.USAGE
    none = hermes("sessions", "search", "apple")
    assert none.returncode == exit_codes.FAILED
    assert "no journal yet" in none.stderr


def test_an_import_says_what_became_of_each_line(hermes: Hermes) -> None:
    done = hermes("sessions", "import", "--jsonl", "-", "--json", stdin=lines() + "{\n")
    assert done.returncode == exit_codes.FAILED
    report = json.loads(done.stdout)
    assert (report["added"], report["rejected"], report["sessions"]) == (5, 1, 2)
    assert report["mistakes"][0].startswith("line 6: ")
    again = json.loads(hermes("sessions", "import", "--jsonl", "-", "--json", stdin=lines()).stdout)
    assert (again["added"], again["known"]) == (0, 5)
    strict = hermes("sessions", "import", "--jsonl", "-", "--strict", stdin="[]\n")
    assert strict.returncode == exit_codes.FAILED
    assert "line 1" in strict.stderr


def test_an_imported_session_is_listed_and_shown(talked: Hermes) -> None:
    listed = json.loads(talked("sessions", "list", "--json").stdout)
    assert {run["id"]: run["messages"] for run in listed} == {"ops": 3, "pets": 2}
    assert "Ada: I truncated access.log" in talked("sessions", "show", "ops").stdout
    assert talked("sessions", "show", "ops", "--at", "99999").returncode == exit_codes.FAILED


def test_recall_answers_one_question_a_line_with_the_ids_of_its_sources(talked: Hermes) -> None:
    questions = [
        {"query": "what did Ada truncate?"},
        {"query": "what does the tortoise eat?", "session": "pets"},
        {"query": "what does the tortoise eat?", "session": "ops"},
    ]
    asked = "".join(json.dumps(each) + "\n" for each in questions) + "nonsense\n"
    done = talked("recall", "--jsonl", "-", "--limit", "2", "--json", stdin=asked)
    answers = [msgspec.json.decode(line) for line in done.stdout.splitlines()]
    assert answers[0]["ids"][0] == "d3"
    assert answers[1]["ids"][0] == "e1"
    assert "e1" not in answers[2]["ids"]
    assert all(len(answer["ids"]) <= 2 for answer in answers[:3])
    assert answers[3]["error"].startswith("line 4: ")


def test_recall_of_one_question_shows_the_source(talked: Hermes) -> None:
    shown = talked("recall", "who", "truncated", "access.log?").stdout
    assert "I truncated access.log" in shown
    assert "hermes sessions show ops --at" in shown
    assert talked("recall").returncode == exit_codes.USAGE


def test_the_index_can_be_thrown_away_and_made_anew(talked: Hermes) -> None:
    (talked.home / "search.db").write_bytes(b"garbage" * 1000)
    found = talked("sessions", "search", "tortoise")
    assert "dandelions" in found.stdout
    assert "rebuilt" in found.stderr
    assert talked("sessions", "reindex").returncode == exit_codes.OK
    assert "dandelions" in talked("sessions", "search", "tortoise").stdout


def test_compaction_takes_the_words_out_of_the_index_too(talked: Hermes) -> None:
    assert talked("sessions", "delete", "pets", "--yes").returncode == exit_codes.OK
    assert talked("journal", "compact").returncode == exit_codes.OK
    assert "nothing found" in talked("sessions", "search", "tortoise").stderr
    assert b"tortois" not in (talked.home / "search.db").read_bytes()


def test_a_secret_in_an_imported_line_is_not_kept(hermes: Hermes) -> None:
    key = "sk-ant-" + "api03-" + "Zx8" * 16
    given = [("d1", "ops", "Ada", f"the key is {key} by the way")]
    assert (
        hermes("sessions", "import", "--jsonl", "-", stdin=lines(given)).returncode == exit_codes.OK
    )
    shown = hermes("sessions", "show", "ops").stdout
    assert "by the way" in shown
    assert key not in shown
