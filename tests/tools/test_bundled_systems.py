"""Every bundled tool of Loki, Grafana, Argo CD, GitHub and GitLab against strict stand-ins;
Prometheus and Alertmanager are real in tests/web."""

from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from tool_setup import ToolSetup, local

from hermes.app.systems import BUNDLED_TOOLS_FOLDER
from hermes.core.events.tools import ToolRequested
from hermes.core.protocols import Tool
from hermes.plumbing.addresses import guard_for
from hermes.tools.answer_shapes import MAX_SHOWN_CHARS
from hermes.tools.request_tool import SystemEndpoint
from hermes.tools.yaml_tools import load_tool_folder
from standins.systems import TOKEN, SystemsStandin

pytestmark = pytest.mark.anyio
SYSTEMS = ("loki", "grafana", "argocd", "github", "gitlab")
REPO, PROJECT = {"repo": "acme/shop"}, {"project": "acme/shop"}
CALLS: dict[str, dict[str, Any]] = {
    "loki_query": {"query": '{app="shop"} |= "ERROR"'},
    "loki_labels": {},
    "loki_stats": {"query": '{app="shop"}'},
    "grafana_search": {"query": "shop"},
    "grafana_dashboard": {"uid": "u1"},
    "grafana_panel": {"uid": "u1", "panel": 3},
    "grafana_annotations": {"tags": ["deploy"]},
    "grafana_annotate": {"text": "rolled back"},
    "grafana_unannotate": {"id": 11},
    "argocd_app_list": {},
    "argocd_app_get": {"name": "shop"},
    "argocd_app_diff": {"name": "shop"},
    "argocd_app_history": {"name": "shop"},
    "argocd_app_resources": {"name": "shop"},
    "argocd_app_sync": {"name": "shop"},
    "argocd_app_rollback": {"name": "shop", "id": 6},
    "github_commits": {**REPO, "path": "a/b"},
    "github_pull_requests": REPO,
    "github_pull_request": {**REPO, "number": 7},
    "github_runs": REPO,
    "github_run_jobs": {**REPO, "id": 3},
    "github_run_log": {**REPO, "id": 4},
    "github_issues": REPO,
    "github_file": {**REPO, "path": "deploy/web app.yaml"},
    "github_comment": {**REPO, "number": 1, "body": "seen"},
    "github_issue_create": {**REPO, "title": "t", "body": "b"},
    "github_revert": {"node_id": "PR_x", "title": "Revert"},
    "gitlab_commits": PROJECT,
    "gitlab_merge_requests": PROJECT,
    "gitlab_merge_request": {**PROJECT, "number": 7},
    "gitlab_pipelines": PROJECT,
    "gitlab_pipeline_jobs": {**PROJECT, "id": 3},
    "gitlab_job_log": {**PROJECT, "id": 4},
    "gitlab_issues": PROJECT,
    "gitlab_file": {**PROJECT, "path": "deploy/web.yaml"},
    "gitlab_comment": {**PROJECT, "number": 1, "body": "seen"},
    "gitlab_issue_create": {**PROJECT, "title": "t", "body": "b"},
    "gitlab_revert": {**PROJECT, "commit": "c0ffee1", "branch": "revert-1"},
}


@pytest.fixture
async def standin() -> AsyncGenerator[SystemsStandin, None]:
    made = SystemsStandin()
    async with made.serving():
        yield made


def tools_for(url: str, token: str = TOKEN) -> dict[str, Tool]:
    headers = {"Authorization": f"Bearer {token}"}
    endpoints = {
        name: SystemEndpoint(name=name, url=url, headers=headers, key="K", guard=guard_for([url]))
        for name in SYSTEMS
    }
    loaded = load_tool_folder(BUNDLED_TOOLS_FOLDER, systems=endpoints, only=SYSTEMS)
    assert not loaded.problems
    return dict(loaded.tools)


@pytest.fixture
async def setup(tmp_path: Path, standin: SystemsStandin) -> AsyncGenerator[ToolSetup, None]:
    async with local(tmp_path) as environment:
        yield ToolSetup(environment, tools_for(standin.url))


async def test_every_bundled_tool_is_answered(setup: ToolSetup, standin: SystemsStandin) -> None:
    assert set(CALLS) == set(tools_for(standin.url))
    for name, arguments in CALLS.items():
        text = await setup.ok(name, **arguments)
        assert 0 < len(text) <= MAX_SHOWN_CHARS + 500, name
    assert standin.problems == []


async def test_logs_are_kinds_of_lines_then_the_last_ones(setup: ToolSetup) -> None:
    text = await setup.ok("loki_query", **CALLS["loki_query"])
    assert "50 lines, 1 kinds of lines" in text
    assert "50 x" in text and "ERROR order <n> took <n> ms" in text
    assert "ERROR order 49 took 3049 ms" in text
    assert "artifact://" in text
    [whole] = setup.artifacts.texts.values()
    assert "ERROR order 0 took" in whole


async def test_what_is_too_much_to_read_is_refused_with_the_number(
    setup: ToolSetup, standin: SystemsStandin
) -> None:
    standin.scanned_bytes = 900_000_000
    said = await setup.fails("loki_query", **CALLS["loki_query"])
    assert "would read 900,000,000 bytes of logs, more than 500,000,000" in said
    assert not any("query_range" in each for each in standin.requests)


async def test_a_change_says_how_it_is_undone(setup: ToolSetup) -> None:
    text = await setup.ok("grafana_annotate", text="x")
    assert '[to undo: grafana_unannotate {"id": 11}]' in text
    synced = await setup.ok("argocd_app_sync", name="shop")
    assert '[to undo: argocd_app_rollback {"name": "shop", "id": 7}]' in synced
    asked = [event for event in setup.journal.events if isinstance(event, ToolRequested)]
    assert asked[0].request is not None
    assert asked[0].request.undo.startswith("grafana_unannotate")
    assert asked[1].remote is not None
    assert asked[1].remote.service == "shop"


async def test_a_row_is_shown_for_the_state_that_was_asked_for(setup: ToolSetup) -> None:
    text = await setup.ok("argocd_app_diff", name="shop")
    assert "Deployment" in text and "Service" not in text
    assert "Latency" in await setup.ok("grafana_panel", uid="u1", panel=3)


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (web.Response(status=429, headers={"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}), "Oct"),
        (web.Response(text="<html>log in</html>", content_type="text/html"), "text/html, not JSON"),
        (web.json_response({"dash": {}}), "the answer has no dashboard.panels: dashboard is miss"),
        (web.json_response({"dashboard": {"panels": 3}}), "dashboard.panels is int, not a list"),
        (web.Response(text="[" * 100_000, content_type="application/json"), "not JSON"),
        (web.json_response({"message": "boom"}, status=500), "it answers 500 boom"),
        (web.Response(status=302, headers={"Location": "http://169.254.169.254/"}), "not a public"),
    ],
)
async def test_a_bad_answer_ends_in_a_clear_word(
    setup: ToolSetup, standin: SystemsStandin, reply: web.Response, words: str
) -> None:
    standin.replies["/api/dashboards/uid/u1"] = reply
    result = await setup.result("grafana_dashboard", uid="u1")
    assert words in result.content


async def test_a_million_series_are_refused_with_a_hint(
    setup: ToolSetup, standin: SystemsStandin
) -> None:
    series = b'{"metric": {"n": "1234567"}, "value": [1, "1"]},' * 200_000
    whole = b'{"data": {"result": [' + series + b"{}]}}"
    standin.replies["/loki/api/v1/query_range"] = web.Response(body=whole)
    said = await setup.fails("loki_query", **CALLS["loki_query"])
    assert "more than 8,388,608 bytes; narrow the question down" in said


async def test_a_line_of_a_megabyte_is_cut(setup: ToolSetup, standin: SystemsStandin) -> None:
    answer = {"data": {"result": [{"stream": {}, "values": [["1", "x" * 1_000_000]]}]}}
    standin.replies["/loki/api/v1/query_range"] = web.json_response(answer)
    text = await setup.ok("loki_query", **CALLS["loki_query"])
    assert len(text) < MAX_SHOWN_CHARS
    assert "artifact://" in text


async def test_arguments_that_do_not_fit_never_leave(
    setup: ToolSetup, standin: SystemsStandin
) -> None:
    for name, arguments in (
        ("loki_query", {"query": "error"}),
        ("loki_query", {"query": '{a="b"}', "start": "now", "end": "now-1h"}),
        ("loki_query", {"query": '{a="b"}', "limit": 0}),
        ("github_file", {"repo": "acme/shop/..", "path": "x"}),
        ("github_file", {"repo": "acme/..", "path": "x"}),
        ("github_commits", {"repo": "acme/shop?x=1"}),
        ("gitlab_file", {"project": "..", "path": "x"}),
        ("grafana_dashboard", {"uid": "../../admin"}),
        ("argocd_app_sync", {"name": "a/b"}),
        ("grafana_search", {"query": "x", "extra": 1}),
    ):
        await setup.fails(name, **arguments)
    assert standin.requests == []


async def test_a_wrong_key_is_named(tmp_path: Path, standin: SystemsStandin) -> None:
    async with local(tmp_path) as environment:
        setup = ToolSetup(environment, tools_for(standin.url, "wrong"))
        assert "is the key K right?" in await setup.fails("grafana_search", query="x")
