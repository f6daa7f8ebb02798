"""`hermes tools` and `hermes policy check` with systems around the host, as a person types them."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes.cli.root_command import root
from hermes.core.errors import SettingsError

FILE = """
toolsets:
  shop:
    tools:
      - {name: shop_orders, command: "shopctl orders {{ customer }}"}
      - {name: shop_shell, command: "bash -c {{ text }}"}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "config.yaml").write_text(
        "model: {default: 'openrouter:x'}\n"
        "systems:\n  prometheus: {url: 'http://127.0.0.1:9090'}\n"
        "  alertmanager: {url: 'http://127.0.0.1:9093'}\n"
    )
    return tmp_path


def hermes(home: Path, *words: str) -> Result:
    env = {"HERMES_HOME": str(home), "NO_COLOR": "1", "OPENROUTER_API_KEY": "sk-or-example"}
    return CliRunner().invoke(root, list(words), env=env)


def test_each_tool_is_listed_with_what_would_bring_it(home: Path) -> None:
    rows = {row["tool"]: row for row in json.loads(hermes(home, "tools", "--json").stdout)}
    assert rows["prometheus_query"]["on"] is True
    assert rows["prometheus_query"]["toolsets"] == ["prometheus"]
    assert rows["loki_query"]["here"] == "missing: the setting systems.loki.url"
    assert "hermes config set systems.loki.url" in rows["loki_query"]["about"]
    sets = {
        row["toolset"]: row for row in json.loads(hermes(home, "tools", "sets", "--json").stdout)
    }
    assert "prometheus_query" in sets["prometheus"]["tools"]


def test_a_toolset_that_another_one_includes_is_on(home: Path) -> None:
    rows = json.loads(hermes(home, "tools", "sets", "--json").stdout)
    on = {row["toolset"] for row in rows if row["on"]}
    assert {"default", "terminal", "systems", "prometheus"} <= on
    assert not on & {"browser", "all", "hermes-telegram"}


def test_a_tool_of_every_conversation_is_shown(home: Path) -> None:
    shown = hermes(home, "tools", "show", "delegate")
    assert shown.exit_code == 0, shown.output
    assert "every conversation has it" in shown.stdout
    told = json.loads(hermes(home, "tools", "show", "delegate", "--json").stdout)
    assert told["name"] == "delegate"


def test_a_search_that_no_hub_answered_does_not_say_that_nothing_matches(home: Path) -> None:
    with (home / "config.yaml").open("a") as file:
        file.write(f"skills: {{hubs: ['{home}/none']}}\n")
    told = hermes(home, "skills", "search", "qqqq")
    assert told.exit_code == 1
    assert "not every hub answered" in str(told.exception)
    assert "no skill matches" not in told.stdout
    assert json.loads(hermes(home, "skills", "search", "qqqq", "--json").stdout) == []


def test_a_mixture_that_is_not_written_is_not_chosen(home: Path) -> None:
    told = hermes(home, "model", "set", "moa:nosuch")
    assert isinstance(told.exception, SettingsError)
    assert "there is no mixture 'nosuch'" in str(told.exception)
    assert "moa" not in (home / "config.yaml").read_text()


def test_the_policy_shows_the_request_of_a_tool(home: Path) -> None:
    asked = hermes(
        home, "policy", "check", "--tool", "prometheus_query", "--json", '{"query": "up"}'
    )
    answer = json.loads(asked.stdout)
    assert answer["verdict"] == "allow"
    assert answer["node"].startswith("POST http://127.0.0.1:9090/api/v1/query query=up")
    silence = '{"matchers": ["alertname=X"], "minutes": 5, "reason": "r"}'
    held = hermes(home, "policy", "check", "--tool", "alertmanager_silence", "--arguments", silence)
    assert "service-change" in held.stdout
    assert "runs after 30 s" in held.stdout


def test_toolsets_of_others_are_translated_once(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "given.yaml"
    file.write_text(FILE)
    dry = hermes(home, "tools", "import", str(file), "--dry-run", "--json")
    assert json.loads(dry.stdout)["tools"] == ["shop_orders"]
    assert not (home / "tools").exists()
    done = hermes(home, "tools", "import", str(file))
    assert "1 tools are in" in done.stdout
    assert "not translated: shop_shell: -c reads its words as code" in done.stderr
    again = hermes(home, "tools", "import", str(file))
    assert again.exit_code != 0
    assert "--replace" in str(again.exception)
    assert hermes(home, "tools", "import", str(file), "--replace").exit_code == 0
    rows = {row["tool"] for row in json.loads(hermes(home, "tools", "--json").stdout)}
    assert "shop_orders" in rows


def test_a_file_of_another_kind_is_refused(home: Path, tmp_path: Path) -> None:
    file = tmp_path / "other.yaml"
    file.write_text("a: 1\n")
    refused = hermes(home, "tools", "import", str(file))
    assert refused.exit_code != 0
    assert "is it a file of HolmesGPT?" in str(refused.exception)


def test_an_imported_tool_that_changes_something_is_rated_and_named(
    home: Path, tmp_path: Path
) -> None:
    file = tmp_path / "cache.yaml"
    tool = "      - {{name: {}, description: d, command: 'redis-cli -p {{{{ port }}}} {}'}}\n"
    tools = tool.format("redis_flush", "flushall") + tool.format("redis_info", "info")
    file.write_text(f"toolsets:\n  cache:\n    tools:\n{tools}")
    done = hermes(home, "tools", "import", str(file))
    assert "asked about: redis_flush" in done.stderr
    assert "bundled tools: redis_info" in done.stderr
    rows = {row["tool"]: row for row in json.loads(hermes(home, "tools", "--json").stdout)}
    assert (rows["redis_flush"]["risk"], rows["redis_info"]["risk"]) == ("change", "read")


def test_an_engine_that_nobody_brings_is_not_set(home: Path) -> None:
    for key in ("tools.web.search", "speech.provider", "speech.speaker"):
        told = hermes(home, "config", "set", key, "nosuch")
        assert isinstance(told.exception, SettingsError), told.output
        assert str(told.exception).startswith(f"{key}: no ")
        assert "there are: " in str(told.exception)
    assert hermes(home, "config", "set", "tools.web.search", "brave,duckduckgo").exit_code == 0
    with (home / "config.yaml").open("a") as file:
        file.write("speech: {speaker: nosuch}\n")
    checked = hermes(home, "config", "check", "--json")
    assert "speech.speaker: no speech named 'nosuch'" in checked.stdout


def test_toolsets_fit_into_a_terminal(home: Path) -> None:
    rows = hermes(home, "tools", "sets").stdout.splitlines()
    assert max(map(len, rows)) <= 120
    told = hermes(home, "tools", "show", "nosuch")
    assert "delegate" in str(told.exception)
    told = hermes(home, "config", "set", "tools.images.provider", "foo")
    assert "expected one of openai, fal, gemini" in str(told.exception)
