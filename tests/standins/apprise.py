"""A strict stand-in of a service for Apprise: what its JSON address posts.

It cannot prove: how the more than a hundred other services answer, and their limits.
"""

import base64
from typing import Any

from aiohttp import web

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.apprise.runtime import AppriseChannel
from hermes.testing.chat_platform import ChatFailure, ShownMessage
from standins.common import StandinBase, expect_arguments, send_half

TOKEN = "k3y-of-the-service-0815"
FIELDS = {"version": str, "title": str, "message": str, "attachments": list, "type": str}
ATTACHMENT = {"filename": str, "base64": str, "mimetype": str}


class AppriseStandin(StandinBase):
    secrets = (TOKEN,)
    group = Address("apprise", "all")

    def __init__(self) -> None:
        super().__init__()
        self.posts: list[dict[str, Any]] = []
        self._second: ChatFailure | None = None

    @property
    def address(self) -> str:
        return f"{self.url.replace('http://', 'json://')}/{TOKEN}"

    def connect(self) -> Channel:
        return AppriseChannel(self.address)

    def fail_second(self, failure: ChatFailure) -> None:
        """How the call after the next one fails."""
        self._second = failure

    def receivers(self) -> int:
        return 0

    def shown(self) -> list[ShownMessage]:
        return [
            ShownMessage(
                reference=f"notice-{post['message'] or 'files'}",
                chat="all",
                text=post["message"],
                files=[
                    (each["filename"], base64.b64decode(each["base64"]))
                    for each in post["attachments"]
                ],
            )
            for post in self.posts
        ]

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/{token}", self._post)

    async def _post(self, request: web.Request) -> web.StreamResponse:
        failure = self.take_failure()
        if self._second is not None:
            self.fail_next(self._second)
            self._second = None
        if failure == "rate limit":
            return web.Response(status=429, headers={"Retry-After": "7"})
        if failure == "server error":
            return web.Response(status=503)
        if failure == "refused token" or request.match_info["token"] != TOKEN:
            return web.Response(status=401)
        post = await request.json()
        for problem in expect_arguments(post, FIELDS, set(FIELDS)):
            self.complain(problem)
        for each in post["attachments"]:
            for problem in expect_arguments(each, ATTACHMENT, set(ATTACHMENT)):
                self.complain(problem)
        self.posts.append(post)
        if failure == "lost answer":
            return await send_half(request, b'{"status": "accepted"}')
        return web.Response(status=200)
