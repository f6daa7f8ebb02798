"""The house and its commands on a database: the same words, several machines, no password shown."""

import json
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import psycopg
import pytest
import yaml
from click.testing import CliRunner

from hermes.app import open_application
from hermes.app.journal.search import JournalSearch
from hermes.app.run_locks import RunLocked
from hermes.cli.root_command import root
from hermes.core.errors import SettingsError, StoreError
from hermes.core.events.memory import FactNoted
from hermes.core.knowledge import SessionQuery
from hermes.memory.facts.sqlite_facts import SqliteFacts
from hermes.memory.store import open_journal
from hermes.settings.load import LoadedSettings, load

ROOT = Path(__file__).parents[3]


def settings(home: Path, url: str, script: Path) -> LoadedSettings:
    variables = {"PATH": os.environ["PATH"], "MEMORY_DB_URL": url}
    return load(home=home, variables=variables, overrides={"model.default": f"scripted:{script}"})


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.jsonl"
    replies = [{"role": "assistant", "text": f"answer {number}"} for number in range(3)]
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return path


def hermes(home: Path, url: str, *words: str) -> Any:
    env = {"HERMES_HOME": str(home), "MEMORY_DB_URL": url, "NO_COLOR": "1"}
    return CliRunner().invoke(root, list(words), env=env, standalone_mode=False)


@pytest.mark.anyio
async def test_a_conversation_begun_on_one_machine_goes_on_on_another(
    tmp_path: Path, database: str, script: Path
) -> None:
    here, there = (settings(tmp_path / name, database, script) for name in ("here", "there"))
    async with open_application(here) as house:
        conversation = await house.begin("melons")
        await conversation.say("where are the melons?")
        async with open_application(there) as other:
            with pytest.raises(RunLocked, match=f"another machine.*{os.getpid()}"):
                await other.resume(conversation.run)
    async with open_application(there) as other:
        resumed = await other.resume()
        assert resumed.run == conversation.run
        assert "melons" in resumed.messages[1].text
    assert not (tmp_path / "here" / "journal.db").exists()


@pytest.mark.anyio
async def test_what_one_machine_learned_another_knows(tmp_path: Path, database: str) -> None:
    async with open_journal(database) as one, open_journal(database) as other:
        note = FactNoted(run="r", fact="f1", memory="semantic", text="nginx needs postgres")
        await one.append(note)
        with closing(SqliteFacts(tmp_path / "memory.db", other)) as facts:
            await facts.catch_up()
            found = await facts.like("postgres")
        assert [fact.id for fact in found] == ["f1"]


def test_commands_work_on_the_database(tmp_path: Path, database: str, script: Path) -> None:
    async def talk() -> None:
        async with open_application(settings(tmp_path / "home", database, script)) as house:
            await (await house.begin("melons")).say("where are the melons?")

    anyio.run(talk)
    home = tmp_path / "home"
    listed = json.loads(hermes(home, database, "sessions", "list", "--json").stdout)
    assert [run["task"] for run in listed] == ["melons"]
    assert "where are the melons?" in hermes(home, database, "sessions", "show", "latest").stdout
    report = json.loads(hermes(home, database, "journal", "verify", "--json").stdout)
    assert report["ok"]
    found = json.loads(hermes(home, database, "store", "status", "--json").stdout)
    assert (found["kind"], found["events"]) == ("postgresql", report["events"])
    assert "postgres:postgres" not in json.dumps(found)
    shown = hermes(home, database, "config", "get", "store.url").stdout
    assert "postgres:postgres" not in shown
    assert "127.0.0.1" in shown
    assert hermes(home, database, "journal", "compact", "--json").exit_code == 0


def test_everything_moves_by_command_and_is_found_there(
    tmp_path: Path, database: str, script: Path
) -> None:
    async def talk(loaded: LoadedSettings) -> None:
        async with open_application(loaded) as house:
            await (await house.begin("melons")).say("where are the melons?")

    home = tmp_path / "home"
    anyio.run(talk, settings(home, "", script))
    moved = json.loads(hermes(home, "", "store", "migrate", "--to", database, "--json").stdout)
    again = hermes(home, "", "store", "migrate", "--to", database)
    assert "0 events copied" in again.stdout
    assert "MEMORY_DB_URL" in again.stderr
    assert (
        json.loads(hermes(home, database, "store", "status", "--json").stdout)["events"]
        == (moved["events"])
    )
    back = tmp_path / "back"
    done = hermes(back, database, "store", "migrate", "--to", "sqlite", "--json")
    assert json.loads(done.stdout)["digest"] == moved["digest"]
    assert json.loads(hermes(back, "", "sessions", "list", "--json").stdout)[0]["task"] == "melons"


def test_a_command_without_its_database_says_what_to_do(tmp_path: Path) -> None:
    done = hermes(tmp_path, "postgresql://me:hush@127.0.0.1:9/none", "sessions", "list")
    assert "127.0.0.1:9" in str(done.exception)
    assert "store.url" in str(done.exception)
    assert "hush" not in str(done.exception)
    with pytest.raises(SettingsError, match="postgresql://user"):
        raise hermes(tmp_path, "mysql://x", "sessions", "list").exception


@pytest.mark.anyio
async def test_search_of_the_house_reads_the_database(
    tmp_path: Path, database: str, script: Path
) -> None:
    loaded = settings(tmp_path / "home", database, script)
    async with open_application(loaded) as house:
        await (await house.begin()).say("where are the melons?")
    past = JournalSearch(loaded)
    try:
        hits = await past.search(SessionQuery(words="melon"))
        assert [hit.line.text for hit in hits.hits][:1] == ["where are the melons?"]
        assert (await past.recall("melons"))[0].line.text == "where are the melons?"
    finally:
        past.close()


def test_the_compose_file_is_what_the_documents_promise() -> None:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    database, core = services["hermes-db"], services["hermes-core"]
    assert database["image"].startswith("pgvector/pgvector:")
    login = "{POSTGRES_USER}:${{POSTGRES_PASSWORD}}@hermes-db:5432/{POSTGRES_DB}"
    expected = "postgresql://" + login.format_map(database["environment"])
    assert core["environment"]["MEMORY_DB_URL"] == expected
    assert database["ports"] == ["127.0.0.1:5432:5432"]


def test_the_driver_is_loaded_only_for_a_database(tmp_path: Path) -> None:
    code = (
        "import sys; from hermes.cli.main import main\n"
        "try: main()\nexcept SystemExit: pass\n"
        "assert 'psycopg' not in sys.modules"
    )
    for words in (["--version"], ["sessions", "list"]):
        done = subprocess.run(
            [sys.executable, "-c", code, *words],
            env={"HERMES_HOME": str(tmp_path), "PATH": os.environ["PATH"]},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


@pytest.mark.anyio
async def test_a_table_that_is_gone_is_told(database: str) -> None:
    async with open_journal(database) as journal:
        with psycopg.connect(database, autocommit=True) as other:
            other.execute("DROP SCHEMA hermes CASCADE")
        with pytest.raises(StoreError, match="gone from"):
            await journal.last()


def test_what_a_machine_signed_for_in_a_database_can_be_verified_there(
    tmp_path: Path, database: str
) -> None:
    script = tmp_path / "script.jsonl"
    call = {"id": "1", "name": "terminal", "arguments": {"command": "echo hello"}}
    replies = [{"role": "assistant", "calls": [call]}, {"role": "assistant", "text": "done"}]
    script.write_text("".join(json.dumps(reply) + "\n" for reply in replies))

    async def work() -> None:
        loaded = settings(tmp_path, database, script)
        async with open_application(loaded) as house:
            conversation = await house.begin("say hello")
            await conversation.say("say hello")

    anyio.run(work)
    done = hermes(tmp_path, database, "audit", "verify", "--json")
    assert json.loads(done.output)["status"] == "verified", done.output
    exported = tmp_path / "audit.jsonl"
    hermes(tmp_path, database, "audit", "export", "-o", str(exported))
    again = hermes(tmp_path, database, "audit", "verify", "--export", str(exported), "--json")
    assert json.loads(again.output)["status"] == "verified", again.output
    with psycopg.connect(database, autocommit=True) as line:
        line.execute("update hermes.event set body = replace(body, 'hello', 'howdy')")
    found = hermes(tmp_path, database, "audit", "verify", "--json")
    assert json.loads(found.output)["status"] == "tampered", found.output


def test_memory_search_and_recall_work_on_a_database(tmp_path: Path, database: str) -> None:
    talk = tmp_path / "talk.jsonl"
    said = {"session": "s", "speaker": "ann", "at": "2026-01-02T03:04:05Z"}
    texts = ("the pump of orders-7 leaks", "we replaced its valve on Monday", "lunch was fine")
    lines = [json.dumps({**said, "id": f"m{n}", "text": text}) for n, text in enumerate(texts)]
    talk.write_text("\n".join(lines) + "\n")
    taken = hermes(tmp_path, database, "sessions", "import", "--jsonl", str(talk), "--json")
    assert json.loads(taken.output)["added"] == 3, taken.output
    found = hermes(tmp_path, database, "sessions", "search", "valve", "--json")
    assert "valve" in json.loads(found.output)["hits"][0]["line"]["text"]
    recalled = hermes(tmp_path, database, "recall", "which pump leaks?", "--json")
    assert json.loads(recalled.output)["ids"][0] == "m0", recalled.output
    hermes(tmp_path, database, "memory", "add", "orders-7 depends on db-3")
    listed = hermes(tmp_path, database, "memory", "list", "--json")
    assert "orders-7 depends on db-3" in listed.output
