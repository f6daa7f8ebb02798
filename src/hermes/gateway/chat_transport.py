"""Delivers through a chat channel: threads of incidents, edits, buttons, long texts."""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
from msgspec.structs import replace

from hermes.core.channels import (
    Address,
    Button,
    Channel,
    EditsMessages,
    OpensThreads,
    OutgoingMessage,
    TextSpan,
    parse_press,
)
from hermes.core.errors import DeliveryError
from hermes.core.events.operations import NotificationQueued
from hermes.core.foreign_text import visible_line, visible_text
from hermes.core.notifications import REPEATED_SUFFIX
from hermes.gateway.manifest import ChannelLimits
from hermes.gateway.markdown import (
    StyledText,
    join_texts,
    parse_markdown,
    plain_text,
    render_text,
    split_text,
    text_length,
)
from hermes.gateway.transports import DeliveryReceipt, LanePace, TransportRequest
from hermes.plumbing.units import format_size

MAX_PIECES = 5
"""A longer text is sent as a file, its beginning as a message."""
MARKDOWN_KINDS = frozenset({"reply", "question", "result"})
"""Their text is CommonMark; that of other notifications is plain."""
CONSENTING_VERBS = frozenset({"once", "session", "always", "go"})
MAX_TITLE_CHARS = 300
MAX_THREAD_TITLE_CHARS = 100
NOT_WHOLE_TEXT = "It does not fit into one message, so it cannot be approved here: hermes approvals"


class ChatTransport:
    """`home` is the chat of messages without one; `folder` is for files of long texts."""

    def __init__(
        self, channel: Channel, limits: ChannelLimits, *, home: str = "", folder: Path
    ) -> None:
        self.name = channel.name
        self._channel, self._limits, self._home, self._folder = channel, limits, home, folder
        self._pace = LanePace(limits.pace)

    def serves(self, destination: str) -> bool:
        return Address.parse(destination).channel == self.name

    def pace_delay(self, destination: str, now: float) -> float:
        return self._pace.delay(Address.parse(destination).chat or self._home, now)

    def lease_s(self, timeout_s: float) -> float:
        return timeout_s * (MAX_PIECES + 1)

    async def deliver(self, request: TransportRequest, timeout_s: float) -> DeliveryReceipt:
        to = self._address(request)
        messages = self._messages(request, to)
        if request.edited and await self._edit(request.edited, messages[0], timeout_s):
            return DeliveryReceipt(request.edited)
        first = last = ""
        for message in messages[request.pieces :]:
            last = await self._send(message, timeout_s)
            first = first or last
            request.pieces += 1
        with suppress(OSError):
            self._long_text_path(request.notice).unlink(missing_ok=True)
        reference = last if request.notice.buttons else first
        thread = await self._open_thread(request, to, reference, timeout_s)
        return DeliveryReceipt(reference, thread)

    def _address(self, request: TransportRequest) -> Address:
        to = Address.parse(request.thread or request.destination)
        if not to.chat:
            to = replace(to, chat=self._home)
        if not to.chat:
            key = f"channels.{self.name}.home_channel"
            raise DeliveryError(f"{self.name} has no home chat: set {key}", permanent=True)
        return to

    def _messages(self, request: TransportRequest, to: Address) -> list[OutgoingMessage]:
        """The text in pieces; the last one has the buttons."""
        notice, text = request.notice, notification_text(request.notice, request.repeated)
        files, refused = self._sendable_files(notice.files)
        if refused:
            text = join_texts([text, plain_text("\n".join(refused))], "\n\n")
        pieces = split_text(text, self._limits.max_text, self._size) or [plain_text("…")]
        buttons = self._buttons(notice.buttons)
        if notice.approval and len(pieces) > 1:
            buttons = _without_consent(buttons)
            text = join_texts([text, plain_text(NOT_WHOLE_TEXT)], "\n\n")
            pieces = split_text(text, self._limits.max_text, self._size)
        if len(pieces) > MAX_PIECES:
            files.insert(0, str(self._write_file(notice, text)))
            pieces = pieces[:1]
        reply_to = notice.reply_to or ("" if request.thread else request.first_message)
        last = len(pieces) - 1
        return [
            OutgoingMessage(
                key=f"{notice.notice}:{number}" if number else notice.notice,
                to=to,
                text=piece.text,
                spans=piece.spans,
                buttons=buttons if number == last else (),
                reply_to="" if number else reply_to,
                files=tuple(files) if number == last else (),
            )
            for number, piece in enumerate(pieces)
        ]

    def _sendable_files(self, names: Sequence[str]) -> tuple[list[str], list[str]]:
        """The files that can be sent, and a line about each of the others: a platform would refuse
        them only after the upload, and the words with them."""
        files, refused = list[str](), list[str]()
        for name in names:
            try:
                size = Path(name).stat().st_size
            except OSError as error:
                refused.append(f"(not sent: {name}: {error.strerror or type(error).__name__})")
                continue
            if size <= self._limits.max_file_bytes:
                files.append(name)
            else:
                most = format_size(self._limits.max_file_bytes)
                why = f"it has {format_size(size)}, {self.name} takes {most}"
                refused.append(f"(not sent: {name}: {why}; it stays on the machine of Hermes)")
        return files, refused

    def _size(self, piece: StyledText) -> int:
        return text_length(render_text(piece, self._limits.format), self._limits.unit)

    def _buttons(self, rows: Sequence[Sequence[Button]]) -> tuple[tuple[Button, ...], ...]:
        """Return the buttons if the platform has room for all of them, otherwise none."""
        if sum(map(len, rows)) > self._limits.max_buttons:
            return ()
        return tuple(tuple(row) for row in rows)

    def _long_text_path(self, notice: NotificationQueued) -> Path:
        name = hashlib.sha256(notice.notice.encode()).hexdigest()[:16]
        return self._folder / f"{name}.md"

    def _write_file(self, notice: NotificationQueued, text: StyledText) -> Path:
        path = self._long_text_path(notice)
        try:
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            path.write_text(render_text(text, "markdown"), "utf-8")
        except OSError as error:
            why = error.strerror or type(error).__name__
            raise DeliveryError(f"{path} cannot be written: {why}") from error
        return path

    async def _send(self, message: OutgoingMessage, timeout_s: float) -> str:
        chat = message.to.chat
        await anyio.sleep(self._pace.delay(chat, anyio.current_time()))
        self._pace.note_sent(chat, anyio.current_time())
        with anyio.fail_after(timeout_s):
            try:
                return await self._channel.send(message)
            except DeliveryError as error:
                if not error.permanent or error.may_have_arrived or not message.spans:
                    raise
                # The platform may have refused the format: the same words without it.
                return await self._channel.send(replace(message, spans=()))

    async def _edit(self, reference: str, message: OutgoingMessage, timeout_s: float) -> bool:
        """Return False when the message is gone. Raises `DeliveryError` when a retry may help."""
        channel = self._channel
        if not isinstance(channel, EditsMessages):
            return False
        self._pace.note_sent(message.to.chat, anyio.current_time())
        with anyio.fail_after(timeout_s):
            try:
                await channel.edit(reference, replace(message, files=(), reply_to=""))
            except DeliveryError as error:
                if not error.permanent:
                    raise
                return False
        return True

    async def _open_thread(
        self, request: TransportRequest, to: Address, reference: str, timeout_s: float
    ) -> str:
        """The address of the thread of a new incident. Without one its messages are answers to the
        first."""
        notice = request.notice
        if notice.about != "declared" or not notice.incident or request.first_message or to.thread:
            return ""
        if not isinstance(self._channel, OpensThreads):
            return ""
        title = visible_line(notice.title, MAX_THREAD_TITLE_CHARS)
        try:
            with anyio.fail_after(timeout_s):
                opened = await self._channel.open_thread(to, title, reference)
        except (DeliveryError, TimeoutError):
            return ""
        return str(opened) if opened != to else ""


def notification_text(notice: NotificationQueued, repeated: bool) -> StyledText:
    """Title and text as they are shown in a chat."""
    title = visible_line(notice.title, MAX_TITLE_CHARS)
    if repeated:
        title = f"{title}{REPEATED_SUFFIX}".strip()
    head = StyledText(title, (TextSpan(0, len(title), "bold"),) if title else ())
    body = visible_text(notice.text)
    if notice.about in MARKDOWN_KINDS:
        return join_texts([head, parse_markdown(body)], "\n\n")
    return join_texts([head, plain_text(body)], "\n")


def _without_consent(rows: Sequence[Sequence[Button]]) -> tuple[tuple[Button, ...], ...]:
    def consents(button: Button) -> bool:
        press = parse_press(button.data)
        return press is not None and press[0] in CONSENTING_VERBS

    left = (tuple(each for each in row if not consents(each)) for row in rows)
    return tuple(row for row in left if row)
