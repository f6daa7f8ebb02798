"""The API of an application: its routes, with everything behind them."""

from collections.abc import AsyncIterator, Callable, Collection, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from hermes import __version__
from hermes.app.application import Application, open_application
from hermes.app.policy import with_waiting_approvals
from hermes.app.web.api.jobs import EditedJobs
from hermes.app.web.api.listings import ViewListings
from hermes.app.web.api.webhooks import SettingsHooks, open_whatsapp_deliveries
from hermes.app.web.resources import JournalViews, PersonActions
from hermes.app.web.turns import ORIGIN, ApplicationTurns, JournalHistories
from hermes.memory.store import JournalStore
from hermes.plumbing.http_service import HttpReply, HttpRequest, HttpRoute
from hermes.settings.load import LoadedSettings
from hermes.web.access import AccessControl
from hermes.web.api_routes import serve_routes
from hermes.web.event_stream import EventStream
from hermes.web.job_resources import JobResources
from hermes.web.listings import Listings
from hermes.web.openai.chat_completions import ChatCompletions
from hermes.web.openai.responses import Responses
from hermes.web.openapi import describe_api
from hermes.web.request_body import refuse_errors
from hermes.web.resources import ApiResources
from hermes.web.run_resources import RunResources
from hermes.web.stored_answers import AnswerStore
from hermes.web.tokens import TokenRegistry
from hermes.web.webhooks import Webhooks

if TYPE_CHECKING:
    from hermes.app.web.mcp_service import HttpMcpService

ANSWER_FOLDER = "api_answers"
"""In the home; answers are kept there for `Idempotency-Key`."""


@asynccontextmanager
async def open_api(
    loaded: LoadedSettings, *, model: str = "", folder: Path | None = None
) -> AsyncIterator[Sequence[HttpRoute]]:
    """The routes of the API, until the block is left. Turns are interrupted then."""
    async with (
        open_application(
            with_waiting_approvals(loaded), origin=ORIGIN, model=model, directory=folder
        ) as application,
        anyio.create_task_group() as group,
    ):
        access = AccessControl(TokenRegistry(application.journal))
        turns = ApplicationTurns(application, group)
        chat = ChatCompletions(turns, JournalHistories(application), access, approval_link(loaded))
        views = JournalViews(loaded, application.journal)
        table = [
            *chat.routes(),
            *Responses(turns, access).routes(),
            *EventStream(application.journal, access, views.may_read_run).routes(),
            *ApiResources(views, PersonActions(loaded, application.journal), access).routes(),
            *RunResources(views, turns, access).routes(),
            *JobResources(EditedJobs(loaded, application.journal), access).routes(),
            *Listings(
                ViewListings(loaded, application.journal, views.may_read_run), access
            ).routes(),
        ]
        hooks = SettingsHooks(loaded, application.journal)
        table += Webhooks(hooks, open_whatsapp_deliveries(loaded)).routes()
        table.append(describe_api(table, __version__))
        yield [
            *serve_routes(table, access, AnswerStore(loaded.home / ANSWER_FOLDER)),
            *_dashboard_routes(loaded, application.journal),
            _mcp_route(application, group, access, loaded.settings.web.hosts),
        ]
        group.cancel_scope.cancel()


def _dashboard_routes(loaded: LoadedSettings, journal: JournalStore) -> list[HttpRoute]:
    if not loaded.settings.web.dashboard:
        return []
    from hermes.app.web.dashboard import dashboard_routes

    return dashboard_routes(loaded, journal)


def _mcp_route(
    application: Application, group: TaskGroup, access: AccessControl, hosts: Collection[str]
) -> HttpRoute:
    opened: list[HttpMcpService] = []

    async def respond(request: HttpRequest) -> HttpReply:
        if not opened:
            from hermes.app.web.mcp_service import HttpMcpService

            opened.append(HttpMcpService(application, group, hosts))
        with refuse_errors():
            return await opened[0].respond(request)

    return HttpRoute("/mcp", ("POST",), respond, access.require("chat"))


def approval_link(loaded: LoadedSettings) -> Callable[[str], str]:
    web = loaded.settings.web
    base = f"{'https' if web.cert else 'http'}://{web.listen}:{web.port}"
    return lambda approval: f"{base}/approvals/{approval}"
