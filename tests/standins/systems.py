"""Strict stand-ins for systems that are not installed here: Loki, Grafana, Argo CD and forges.

They are written from the documents of the APIs and know only the calls below. An unknown path, an
unknown or missing parameter and a wrong key are errors of the stand-in, kept in `problems`.
"""

import json
import re
from typing import Any

from aiohttp import web

from standins.common import StandinBase

TOKEN = "key-of-the-system-1234"
REPOSITORY = re.escape("/repos/acme/shop")
PROJECT = re.escape("/api/v4/projects/acme%2Fshop")
STREAMS = [
    {
        "stream": {"app": "shop"},
        "values": [
            [
                str(1_770_000_000_000_000_000 + number * 10**9),
                f"ERROR order {number} took 30{number} ms",
            ]
            for number in range(50)
        ],
    }
]
DASHBOARD = {
    "dashboard": {
        "title": "Shop",
        "panels": [
            {"id": 2, "title": "Errors", "targets": [{"expr": "rate(errors[5m])"}]},
            {"id": 3, "title": "Latency", "targets": [{"expr": "latency"}]},
        ],
    }
}
APPLICATION = {
    "metadata": {"name": "shop"},
    "spec": {"project": "default"},
    "status": {
        "sync": {"status": "OutOfSync", "revision": "abc"},
        "health": {"status": "Degraded"},
        "history": [{"id": 6, "revision": "aaa"}, {"id": 7, "revision": "bbb"}],
        "resources": [
            {"kind": "Deployment", "name": "web", "status": "OutOfSync"},
            {"kind": "Service", "name": "web", "status": "Synced"},
        ],
    },
}
COMMIT = {
    "sha": "c0ffee",
    "commit": {"author": {"name": "ann", "date": "2026-03-01"}, "message": "m"},
}

Call = tuple[str, str, set[str], Any]
"""Method, pattern of the raw path, parameters of query or body, and the answer."""
CALLS: tuple[Call, ...] = (
    (
        *("GET", r"/loki/api/v1/query_range", {"query", "start", "end", "limit", "direction"}),
        {"status": "success", "data": {"resultType": "streams", "result": STREAMS}},
    ),
    ("GET", r"/loki/api/v1/labels", set(), {"status": "success", "data": ["app", "host"]}),
    ("GET", r"/loki/api/v1/label/app/values", set(), {"status": "success", "data": ["shop"]}),
    (
        "GET",
        r"/api/search",
        {"query", "limit"},
        [{"title": "Shop", "uid": "u1", "type": "dash-db"}],
    ),
    ("GET", r"/api/dashboards/uid/u1", set(), DASHBOARD),
    ("GET", r"/api/annotations", {"from", "to", "limit", "tags"}, [{"id": 9, "text": "deploy"}]),
    ("POST", r"/api/annotations", {"text", "tags"}, {"id": 11, "message": "Annotation added"}),
    ("DELETE", r"/api/annotations/11", set(), {"message": "Annotation deleted"}),
    ("GET", r"/api/v1/applications", {"projects"}, {"items": [APPLICATION]}),
    ("GET", r"/api/v1/applications/shop", set(), APPLICATION),
    ("GET", r"/api/v1/applications/shop/resource-tree", set(), {"nodes": [{"kind": "Pod"}]}),
    (
        "POST",
        r"/api/v1/applications/shop/sync",
        {"name", "revision", "prune", "dryRun"},
        APPLICATION,
    ),
    ("POST", r"/api/v1/applications/shop/rollback", {"name", "id", "prune"}, APPLICATION),
    ("GET", REPOSITORY + "/commits", {"since", "until", "path", "per_page"}, [COMMIT]),
    ("GET", REPOSITORY + "/pulls", {"state", "sort", "direction", "per_page"}, [{"number": 7}]),
    ("GET", REPOSITORY + "/pulls/7", set(), {"number": 7, "node_id": "PR_x", "title": "t"}),
    ("GET", REPOSITORY + "/actions/runs", {"branch", "per_page"}, {"workflow_runs": [{"id": 3}]}),
    ("GET", REPOSITORY + "/actions/runs/3/jobs", {"per_page"}, {"jobs": [{"id": 4}]}),
    ("GET", REPOSITORY + "/actions/jobs/4/logs", set(), "line one\nline two\n"),
    ("GET", REPOSITORY + "/issues", {"state", "labels", "sort", "per_page"}, [{"number": 1}]),
    ("GET", REPOSITORY + "/contents/deploy/web%20app.yaml", {"ref"}, "replicas: 3\n"),
    ("POST", REPOSITORY + "/issues/1/comments", {"body"}, {"id": 5, "html_url": "https://x"}),
    ("POST", REPOSITORY + "/issues", {"title", "body", "labels"}, {"number": 2}),
    (
        *("POST", r"/graphql", {"query", "variables"}),
        {"data": {"revertPullRequest": {"revertPullRequest": {"number": 8}}}},
    ),
    (
        "GET",
        PROJECT + "/repository/commits",
        {"since", "until", "path", "ref_name", "per_page"},
        [{}],
    ),
    ("GET", PROJECT + "/merge_requests", {"state", "order_by", "per_page"}, [{"iid": 7}]),
    ("GET", PROJECT + "/merge_requests/7", set(), {"iid": 7, "title": "t"}),
    ("GET", PROJECT + "/pipelines", {"ref", "per_page"}, [{"id": 3, "status": "failed"}]),
    ("GET", PROJECT + "/pipelines/3/jobs", {"per_page"}, [{"id": 4, "name": "test"}]),
    ("GET", PROJECT + "/jobs/4/trace", set(), "step one\nfailed\n"),
    ("GET", PROJECT + "/issues", {"state", "labels", "order_by", "per_page"}, [{"iid": 1}]),
    ("GET", PROJECT + "/repository/files/deploy%2Fweb.yaml/raw", {"ref"}, "replicas: 3\n"),
    ("POST", PROJECT + "/issues/1/notes", {"body"}, {"id": 5}),
    ("POST", PROJECT + "/issues", {"title", "description"}, {"iid": 2}),
    ("POST", PROJECT + "/repository/commits/c0ffee1/revert", {"branch"}, {"id": "d00d"}),
)


class SystemsStandin(StandinBase):
    """All of them on one port, because their paths differ."""

    def __init__(self) -> None:
        super().__init__()
        self.requests: list[str] = []
        self.scanned_bytes = 1_000_000
        self.replies: dict[str, web.Response] = {}
        """By path: what it answers instead, once."""

    def add_routes(self, app: web.Application) -> None:
        app.router.add_route("*", "/{rest:.*}", self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        path = request.rel_url.raw_path
        self.requests.append(f"{request.method} {path}")
        if request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return web.json_response({"message": "Bad credentials"}, status=401)
        if (given := self.replies.pop(path, None)) is not None:
            return given
        body = await request.read()
        named = {*request.query, *(json.loads(body) if body else {})}
        if path == "/loki/api/v1/index/stats" and named == {"query", "start", "end"}:
            return web.json_response({"streams": 1, "bytes": self.scanned_bytes})
        for method, pattern, parameters, answer in CALLS:
            if method == request.method and re.fullmatch(pattern, path):
                if unknown := named - parameters:
                    return self._refuse(f"{path}: unknown parameters {sorted(unknown)}")
                if isinstance(answer, str):
                    return web.Response(text=answer)
                return web.json_response(answer)
        return self._refuse(f"no call {request.method} {path}")

    def _refuse(self, why: str) -> web.StreamResponse:
        self.complain(why)
        return web.json_response({"message": why}, status=404)
