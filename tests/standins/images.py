"""Strict stand-ins for providers that draw pictures, and for a model that sees.

Real ones cannot be reached from the tests. These are written from the documents of the APIs and
know only the calls below: an unknown field, a wrong key or a wrong size is kept in `problems`.
"""

import base64
from typing import Any

from aiohttp import web

from picture_samples import picture
from standins.common import StandinBase

KEY = "key-of-the-painter-1234"


class ImageStandin(StandinBase):
    def __init__(self) -> None:
        super().__init__()
        self.requests: list[dict[str, Any]] = []
        self.polls = 0
        self.busy_polls = 2
        """How often the queue says that it is not done."""
        self.status = 200
        self.answer: Any = None
        """Sent instead of the right answer."""
        self.moved_to = ""
        """An address of another host that the queue names."""
        self.picture = picture("PNG", (96, 64))
        self.downloads = 0

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/images/generations", self._openai)
        app.router.add_post("/fal-ai/flux/dev", self._fal)
        app.router.add_get("/fal-ai/flux/requests/r1/status", self._fal_status)
        app.router.add_get("/fal-ai/flux/requests/r1", self._fal_answer)
        app.router.add_post("/models/gemini-2.5-flash-image:generateContent", self._gemini)
        app.router.add_post("/v1/chat/completions", self._chat)
        app.router.add_get("/files/a.png", self._file)
        app.router.add_get("/files/moved.png", self._moved)

    def _check(self, request: web.Request, header: str, value: str) -> None:
        if request.headers.get(header) != value:
            self.complain(f"{request.path}: wrong or missing {header}")

    async def _body(self, request: web.Request, known: set[str]) -> dict[str, Any]:
        body: dict[str, Any] = await request.json()
        if set(body) - known:
            self.complain(f"{request.path}: unknown fields {set(body) - known}")
        self.requests.append(body)
        return body

    def _reply(self, answer: Any) -> web.Response:
        if self.status != 200:
            return web.json_response({"error": f"no; you sent {KEY}"}, status=self.status)
        return web.json_response(self.answer if self.answer is not None else answer)

    async def _openai(self, request: web.Request) -> web.Response:
        self._check(request, "authorization", f"Bearer {KEY}")
        body = await self._body(request, {"model", "prompt", "n", "size"})
        if body["size"] not in ("1024x1024", "1536x1024", "1024x1536"):
            self.complain(f"no such size: {body['size']}")
        coded = base64.b64encode(self.picture).decode()
        return self._reply({"data": [{"b64_json": coded}] * body["n"]})

    async def _fal(self, request: web.Request) -> web.Response:
        self._check(request, "authorization", f"Key {KEY}")
        body = await self._body(request, {"prompt", "image_size", "num_images"})
        if body["image_size"] not in ("square_hd", "landscape_4_3", "portrait_4_3"):
            self.complain(f"no such size: {body['image_size']}")
        base = f"{self.moved_to or self.url}/fal-ai/flux/requests/r1"
        return self._reply(
            {"request_id": "r1", "status_url": f"{base}/status", "response_url": base}
        )

    async def _fal_status(self, request: web.Request) -> web.Response:
        self._check(request, "authorization", f"Key {KEY}")
        self.polls += 1
        if self.polls > self.busy_polls:
            return web.json_response({"status": "COMPLETED"})
        return web.json_response(
            {"status": "IN_QUEUE" if self.polls == 1 else "IN_PROGRESS"}, status=202
        )

    async def _fal_answer(self, request: web.Request) -> web.Response:
        self._check(request, "authorization", f"Key {KEY}")
        count = self.requests[-1]["num_images"]
        return self._reply({"images": [{"url": f"{self.url}/files/a.png"}] * count})

    async def _gemini(self, request: web.Request) -> web.Response:
        self._check(request, "x-goog-api-key", KEY)
        await self._body(request, {"contents", "generationConfig"})
        data = {"mimeType": "image/png", "data": base64.b64encode(self.picture).decode()}
        parts = [{"text": "here"}, {"inlineData": data}]
        return self._reply({"candidates": [{"content": {"parts": parts}}]})

    async def _chat(self, request: web.Request) -> web.Response:
        body: dict[str, Any] = await request.json()
        self.requests.append(body)
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "cost": 0.5}
        message = {"content": "it says: restart nginx"}
        return self._reply(
            {"choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}
        )

    async def _file(self, request: web.Request) -> web.Response:
        self.downloads += 1
        if "authorization" in request.headers or "x-goog-api-key" in request.headers:
            self.complain("a key was sent with a download")
        return web.Response(body=self.picture, content_type="text/plain")

    async def _moved(self, request: web.Request) -> web.Response:
        raise web.HTTPFound("http://169.254.169.254/latest/meta-data")
