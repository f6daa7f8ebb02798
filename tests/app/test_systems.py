"""Settings become systems, tools and keys: only what is configured is there, and keys stay."""

import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.app.policy import describe_call, open_policy
from hermes.app.secret_redactor import SecretRedactor
from hermes.app.systems import command_connections, list_declared_tools, system_endpoints
from hermes.app.tools.tooling import build_tooling
from hermes.core.actions import Action
from hermes.core.errors import SettingsError
from hermes.core.messages import Risk, ToolCall
from hermes.settings.load import LoadedSettings, load

VARIABLES = {"PATH": "/usr/bin:/bin", "OPENROUTER_API_KEY": "sk-or-example"}
PROMETHEUS = "systems: {prometheus: {url: 'http://127.0.0.1:9090'}}\n"
TOKEN = "token-of-prometheus-77"


def loaded_from(home: Path, config: str = "", **variables: str) -> LoadedSettings:
    (home / "config.yaml").write_text(config)
    return load(home=home, variables=VARIABLES | {"HOME": str(home)} | variables)


def tools_of(loaded: LoadedSettings) -> set[str]:
    return set(build_tooling(loaded).catalogue.tools)


@pytest.mark.command
def test_without_systems_nothing_is_offered_and_nothing_is_loaded(tmp_path: Path) -> None:
    assert not any(name.startswith("prometheus") for name in tools_of(loaded_from(tmp_path)))
    code = (
        "import sys; from pathlib import Path; from hermes.app.tools.tooling import build_tooling\n"
        f"from hermes.settings.load import load; home = Path({str(tmp_path)!r})\n"
        f"build_tooling(load(home=home, variables={VARIABLES!r}))\n"
        "print([m for m in sys.modules if 'request_tool' in m or 'addresses' in m or 'httpx' in m])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_system_brings_its_tools(tmp_path: Path) -> None:
    named = tools_of(loaded_from(tmp_path, PROMETHEUS))
    assert {"prometheus_query", "prometheus_targets"} <= named
    assert not {"alertmanager_silence", "loki_query", "github_commits"} & named
    alone = tools_of(
        loaded_from(tmp_path, "systems: {alertmanager: {url: 'http://127.0.0.1:9093'}}")
    )
    assert "alertmanager_silence" in alone
    assert "prometheus_query" not in alone


def test_the_options_of_a_database_ask_for_encryption_where_it_is_wanted(tmp_path: Path) -> None:
    config = """
tools:
  databases:
    orders: {kind: postgres, host: db1, user: reader, database: orders, tls: true}
    shop: {kind: mysql, host: db2, tls: true}
    cache: {kind: redis, host: db3, port: 6380, tls: true}
    plain: {kind: redis, host: db3}
"""
    found = command_connections(loaded_from(tmp_path, config))
    orders = shlex.split(found["postgres"]["orders"].options)
    assert orders == ["-h", "db1", "-U", "reader", "-d", "dbname='orders' sslmode=require"]
    assert found["mysql"]["shop"].options == "-h db2 --ssl"
    assert found["redis"]["cache"].options == "-h db3 -p 6380 --tls"
    assert found["redis"]["plain"].options == "-h db3"


def test_the_prometheus_of_the_watch_is_one_of_the_systems(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path, "sre: {prometheus: {url: 'http://127.0.0.1:9090'}}")
    assert "prometheus_query" in tools_of(loaded)


def test_everything_that_could_be_there_is_listed(tmp_path: Path) -> None:
    declared = list_declared_tools(loaded_from(tmp_path))
    assert not declared.problems
    assert {*("prometheus", "loki", "grafana", "argocd", "github", "gitlab")} <= set(
        declared.members
    )


@pytest.mark.parametrize("url", ["prometheus", "file:///x", "http://", "http://me:pw@host", "x:y"])
def test_an_address_that_is_none_is_named(tmp_path: Path, url: str) -> None:
    config = f"systems: {{prometheus: {{url: '{url}'}}}}"
    with pytest.raises(SettingsError, match=r"systems.prometheus.url"):
        system_endpoints(loaded_from(tmp_path, config))


def test_the_key_is_sent_by_header_and_stays_here_otherwise(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path, PROMETHEUS, PROMETHEUS_TOKEN=TOKEN)
    endpoint = system_endpoints(loaded)["prometheus"]
    assert endpoint.headers == {"Authorization": f"Bearer {TOKEN}"}
    find = SecretRedactor(loaded).find_secret
    assert find(f"x {TOKEN} y", "https://evil.example") == "PROMETHEUS_TOKEN"
    assert find(f"x {TOKEN} y", "") == "PROMETHEUS_TOKEN"
    assert find(f"x {TOKEN} y", "http://127.0.0.1:9090") == ""
    assert find("nothing", "") == ""


def test_the_policy_judges_a_described_call(tmp_path: Path) -> None:
    config = PROMETHEUS + "sre: {}\n"
    loaded = loaded_from(tmp_path, config.replace("}}", "}, alertmanager: {url: 'http://am:1'}}"))
    policy = open_policy(loaded, tmp_path, isolated=True)

    def verdict(tool: str, **arguments: object) -> tuple[str, float]:
        action = Action(
            call=ToolCall("c", tool, arguments),
            risk=Risk.CHANGE,
            run="r",
            origin="cli",
            environment="sandbox",
            target="here",
            isolated=True,
        )
        found = policy.decide(describe_call(loaded, action))
        return found.verdict, found.ask.announce if found.ask else 0.0

    assert verdict("prometheus_query", query="up") == ("allow", 0.0)
    silence = {"matchers": ["alertname=X"], "minutes": 5, "reason": "r"}
    assert verdict("alertmanager_silence", **silence) == ("ask", 30.0)


def test_a_tool_of_the_home_may_be_a_request_and_replaces_ours(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/mine.yaml").write_text(
        "- {name: shop_orders, description: d, risk: read, "
        "request: {system: shop, path: /orders}}\n"
        "- {name: prometheus_query, description: mine, risk: read, "
        "request: {system: prometheus, path: /mine}}\n"
        "- {name: terminal, description: d, risk: read, request: {system: shop, path: /x}}\n"
    )
    config = PROMETHEUS + "  \n"
    loaded = loaded_from(tmp_path, config.replace("}}", "}, shop: {url: 'http://shop:80'}}"))
    tooling = build_tooling(loaded)
    assert "shop_orders" in tooling.catalogue.tools
    assert tooling.catalogue.tools["prometheus_query"].spec.description == "mine"
    assert "there is a tool 'terminal' already" in tooling.problems[0]


def test_built_in_tools_are_offered_where_their_programs_are(tmp_path: Path) -> None:
    loaded = loaded_from(tmp_path)
    assert "execute_code" in tools_of(loaded)
    nowhere = loaded_from(tmp_path, PATH=str(tmp_path))
    assert "execute_code" not in tools_of(nowhere)
    assert "terminal" in tools_of(nowhere)
