"""A strict stand-in for an API of speech in the dialect of OpenAI, written from its documents."""

import io
import wave

from aiohttp import web

from standins.common import StandinBase

KEY = "sk-speech-1234567890"
TEXT = "restart the web server"
FORM_FIELDS = {"model", "response_format", "language", "file"}
SPEECH_FIELDS = {"model", "voice", "input", "response_format"}


class SpeechStandin(StandinBase):
    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []
        """Names of the files that were sent."""
        self.spoken: list[str] = []
        self.status = 200

    def add_routes(self, app: web.Application) -> None:
        app.router.add_post("/v1/audio/transcriptions", self._transcribe)
        app.router.add_post("/v1/audio/speech", self._speak)

    def _refusal(self, request: web.Request) -> web.Response | None:
        if request.headers.get("Authorization") != f"Bearer {KEY}":
            return web.json_response({"error": {"message": "Incorrect API key"}}, status=401)
        if self.status != 200:
            return web.json_response({"error": {"message": "no"}}, status=self.status)
        return None

    async def _transcribe(self, request: web.Request) -> web.Response:
        form = await request.post()
        if refused := self._refusal(request):
            return refused
        if unknown := set(form) - FORM_FIELDS:
            self.complain(f"unknown fields {unknown}")
        file = form.get("file")
        if not isinstance(file, web.FileField) or not file.file.read(4) or "model" not in form:
            return web.json_response({"error": {"message": "file and model"}}, status=400)
        self.names.append(file.filename)
        return web.json_response({"text": TEXT})

    async def _speak(self, request: web.Request) -> web.Response:
        given = await request.json()
        if refused := self._refusal(request):
            return refused
        if set(given) != SPEECH_FIELDS or given["response_format"] != "wav":
            self.complain(f"unexpected {given}")
        self.spoken.append(given["input"])
        return web.Response(body=make_wav(0.5, 8000), content_type="audio/wav")


def make_wav(seconds: float, amplitude: int, rate: int = 16_000) -> bytes:
    """A square wave of 200 Hz."""
    half = rate // 400
    period = amplitude.to_bytes(2, "little", signed=True) * half
    period += (-amplitude).to_bytes(2, "little", signed=True) * half
    frames = int(seconds * rate)
    data = (period * (frames // (2 * half) + 1))[: frames * 2]
    kept = io.BytesIO()
    with wave.open(kept, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(data)
    return kept.getvalue()
