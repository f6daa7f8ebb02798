"""The bundled tools that are commands: kubectl, helm, docker, psql, mariadb, redis-cli.

Nothing is run here: what a call would run is judged as the policy does. `make test-kubernetes` runs
kubectl on a real cluster, tests/tools/test_database_tools.py the clients of databases.
"""

from typing import Any

import pytest

from hermes.app.systems import BUNDLED_TOOLS_FOLDER, command_connections
from hermes.core.errors import ToolError
from hermes.core.messages import Risk, ToolCall, ToolResult
from hermes.policy.command_analysis import analyse_command
from hermes.settings.load import load
from hermes.tools.connected_command import CommandConnection, ConnectedCommand
from hermes.tools.yaml_tools import load_tool_folder

FILES = ("kubernetes", "helm", "docker", "databases")
CONNECTIONS = {
    "kubernetes": {"": CommandConnection(options="--context prod", host="prod")},
    "helm": {"": CommandConnection(options="--kube-context prod", host="prod")},
    "docker": {"": CommandConnection(options="-H unix:///var/run/docker.sock")},
    "postgres": {
        "orders": CommandConnection(options="-h db1 -d orders", host="db1"),
        "users": CommandConnection(options="-h db2 -d users", host="db2"),
    },
    "mysql": {"shop": CommandConnection(options="-h db3", host="db3")},
    "redis": {"cache": CommandConnection(options="-h r1", host="r1")},
}
GIVEN: dict[str, Any] = {
    "kind": "pods",
    "name": "web",
    "pod": "web-1",
    "what": "pods",
    "workload": "deployment/web",
    "path": "web.yaml",
    "verb": "get",
    "replicas": 3,
    "release": "shop",
    "revision": 2,
    "container": "web",
    "connection": "orders",
    "sql": "select count(*) from orders",
}
READING = {"read", "network-read", "network-local"}
PRINTING_SECRETS = {"helm_values"}
"""Tools that only read, and whose answer may hold passwords: the policy asks."""


def load_tools() -> dict[str, ConnectedCommand]:
    loaded = load_tool_folder(BUNDLED_TOOLS_FOLDER, connections=CONNECTIONS, only=FILES)
    assert loaded.problems == ()
    return {n: tool for n, tool in loaded.tools.items() if isinstance(tool, ConnectedCommand)}


TOOLS = load_tools()


def arguments(name: str, **more: Any) -> dict[str, Any]:
    wanted = TOOLS[name].spec.parameters.get("required", [])
    found = {key: GIVEN[key] for key in wanted} | more
    if name == "sql_explain":
        found["sql"] = "explain select 1"
    return found


@pytest.mark.parametrize("name", TOOLS)
def test_the_policy_finds_what_the_file_says(name: str) -> None:
    tool = TOOLS[name]
    found = analyse_command(tool.command(arguments(name)), cwd="/srv")
    assert not found.problems
    effects = found.effects - READING
    assert ("secret-read" in effects) is (name in PRINTING_SECRETS)
    effects -= {"secret-read"}
    expected: dict[Risk, set[str]] = {
        Risk.READ: set(),
        Risk.CHANGE: {"service-change", "write"},
        Risk.DESTROY: {"delete", "irreversible"},
    }
    assert effects <= expected[tool.spec.risk]
    assert bool(effects) is (tool.spec.risk is not Risk.READ)


@pytest.mark.parametrize("name", TOOLS)
def test_each_says_where_it_acts_and_what_it_needs(name: str) -> None:
    tool = TOOLS[name]
    assert tool.acts_on(arguments(name)).kind in CONNECTIONS
    assert tool.needs.programs and tool.needs.settings and tool.needs.how


def test_a_rule_can_look_at_cluster_namespace_and_workload() -> None:
    target = TOOLS["kubernetes_scale"].acts_on(arguments("kubernetes_scale", namespace="shop"))
    assert (target.kind, target.host) == ("kubernetes", "prod")
    assert (target.namespace, target.service) == ("shop", "deployment/web")


def test_a_model_cannot_choose_another_cluster() -> None:
    with pytest.raises(ToolError):
        TOOLS["kubernetes_get"].command({"kind": "pods", "connection": "--context=other"})


@pytest.mark.parametrize(
    ("tool", "wrong"),
    [
        ("kubernetes_get", {"kind": "secrets", "output": "yaml"}),
        ("kubernetes_get", {"kind": "pods,Secrets"}),
        ("kubernetes_get", {"kind": "pods", "name": "--raw=/api"}),
        ("kubernetes_get", {"kind": "pods", "namespace": "shop --as=root"}),
        ("kubernetes_delete", {"kind": "pods", "name": "a,b"}),
        ("kubernetes_delete", {"kind": "pods", "name": "--all"}),
        ("kubernetes_delete", {"kind": "pods,services", "name": "web"}),
        ("kubernetes_scale", {"workload": "--all", "replicas": 0}),
        ("docker_stop", {"container": "$(id)"}),
        ("sql_query", {"connection": "orders", "sql": "select 1; drop table orders"}),
        ("sql_query", {"connection": "orders", "sql": "copy orders to program 'sh'"}),
        ("sql_query", {"connection": "orders", "sql": "delete from orders"}),
        ("sql_query", {"connection": "orders", "sql": "\\! reboot"}),
        ("sql_query", {"connection": "nobody", "sql": "select 1"}),
        ("sql_explain", {"connection": "orders", "sql": "explain analyze delete from orders"}),
    ],
)
def test_what_is_not_meant_is_refused_before_anything_runs(
    tool: str, wrong: dict[str, Any]
) -> None:
    with pytest.raises(ToolError):
        TOOLS[tool].command(wrong)


@pytest.mark.parametrize(
    "sql",
    [
        "select pg_terminate_backend(42)",
        "select lo_export(1, '/tmp/x')",
        "with gone as (delete from orders returning 1) select * from gone",
        "select * into copied from orders",
    ],
)
def test_a_statement_that_changes_something_is_no_plain_read(sql: str) -> None:
    command = TOOLS["sql_query"].command({"connection": "orders", "sql": sql})
    assert analyse_command(command, cwd="/srv").effects - READING


def test_the_options_come_from_the_settings() -> None:
    overrides = {
        "sre.kubernetes.kubeconfig": "~/.kube/config",
        "sre.kubernetes.context": "prod eu",
        "tools.docker": "unix:///var/run/docker.sock",
        "tools.databases": '{"orders": {"kind": "postgres", "host": "db1", "user": "look"}}',
    }
    found = command_connections(load(variables={}, overrides=overrides))
    assert found["kubernetes"][""].options == "--kubeconfig ~/.kube/config --context 'prod eu'"
    assert found["helm"][""].options == "--kubeconfig ~/.kube/config --kube-context 'prod eu'"
    assert found["postgres"]["orders"].options == "-h db1 -U look"


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("postgres", "-h /run/db -p 7 -U look"),
        ("mysql", "-S /run/db -u look"),
        ("redis", "-s /run/db --user look"),
    ],
)
def test_a_path_is_the_socket_of_a_database(kind: str, options: str) -> None:
    given = f'{{"db": {{"kind": "{kind}", "host": "/run/db", "port": 7, "user": "look"}}}}'
    found = command_connections(load(variables={}, overrides={"tools.databases": given}))
    assert found[kind]["db"].options == options


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("printed", "note"),
    [
        ("2\n[0.1 s]", "--replicas 2]"),
        ("2", "--replicas 2]"),
        ("not found\n[exit 1 · 0.1 s]", "no undo is known"),
        ("2\n[exit 1 · 0.1 s]", "no undo is known"),
        ("2; reboot\n[0.1 s]", "no undo is known"),
    ],
)
async def test_the_undo_is_what_was_there_before(printed: str, note: str) -> None:
    async def terminal(call: ToolCall) -> ToolResult:
        return ToolResult(call_id=call.id, status="ok", content=printed)

    tool, given = TOOLS["kubernetes_scale"], arguments("kubernetes_scale")
    assert note in await tool.undo_note(terminal, given)
