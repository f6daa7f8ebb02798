"""Serves the index and the bundles of a published folder, and nothing else."""

from http import HTTPStatus
from pathlib import Path

import anyio
from anyio.abc import TaskStatus

from hermes.core.errors import SettingsError
from hermes.plumbing.http_server import HttpListenError, serve_http
from hermes.plumbing.http_service import HttpRefusal, HttpReply, HttpRequest, HttpRoute, HttpService
from hermes.skills.exchange.bundle import BUNDLE_SUFFIX
from hermes.skills.exchange.index import INDEX_FILE, INDEX_FOLDER


async def serve_folder(
    folder: Path,
    host: str = "127.0.0.1",
    port: int = 0,
    *,
    task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
) -> None:
    """Serve until cancelled; `await group.start(...)` returns the address once it listens.

    Raises `SettingsError` when the address is taken.
    """

    async def respond(request: HttpRequest) -> HttpReply:
        name = request.path.removeprefix(f"/{INDEX_FOLDER}/")
        offered = name == INDEX_FILE or (name.endswith(BUNDLE_SUFFIX) and name[0] != ".")
        file = folder / INDEX_FOLDER / name
        if not offered or file.is_symlink() or not file.is_file():
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "not published")
        kind = "application/json" if name == INDEX_FILE else "application/octet-stream"
        return HttpReply(body=await anyio.Path(file).read_bytes(), content_type=kind)

    def ready(bound_port: int) -> None:
        task_status.started(f"http://{host}:{bound_port}")

    route = HttpRoute(f"/{INDEX_FOLDER}/{{name}}", ("GET",), respond)
    try:
        await serve_http(HttpService(routes=(route,)), host, port, ready=ready)
    except HttpListenError as error:
        raise SettingsError(f"cannot listen on {host}:{port}: {error}") from error
