"""The e-mail channel: SMTP to send, and IMAP, when it is switched on, to receive.

A mail is marked as seen when the next one is asked for. Each mail of ours has a Message-ID made of
the key of the message, so that a repeated one can be recognised; servers promise nothing of that
kind. The libraries block, so they run in threads.
"""

import imaplib
import smtplib
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from email.errors import MessageError
from email.headerregistry import Address as MailAddress
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, localtime
from functools import partial
from typing import Any, Self, TypeVar

import anyio
from anyio.to_thread import run_sync

from hermes.core.channels import Address, InboundMessage, MediaItem, OutgoingMessage
from hermes.core.errors import ChannelFailed, DeliveryError
from hermes.gateway.channels.files import OutgoingFile, chat_of, read_outgoing_file
from hermes.gateway.channels.hidden_secrets import hide_secrets
from hermes.gateway.channels.inbound.mail_messages import (
    MailIdentity,
    attachments,
    own_id,
    parse_mail,
    read_mail,
)
from hermes.gateway.settings import EmailSettings

TIMEOUT_S = 30.0
RETRY_AFTER_S = 60.0
"""A server that refuses for now does not say for how long."""
MAX_MAIL_BYTES = 30 * 10**6
"""Of a longer mail the rest is not read."""
MAX_SUBJECT_CHARS = 100
SMTP_TLS_PORT, IMAP_TLS_PORT = 465, 993
LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")
POLICY = SMTP.clone(cte_type="7bit")
T = TypeVar("T")
PASSWORD_ADVICE = "compare EMAIL_PASSWORD and channels.email.user"


def open_channel(settings: EmailSettings, secrets: Mapping[str, str]) -> "EmailChannel":
    return EmailChannel(settings, secrets["EMAIL_PASSWORD"])


class EmailChannel:
    """Sends as one address. On loopback, at ports other than 465 and 993, it needs no TLS."""

    def __init__(self, settings: EmailSettings, password: str, *, name: str = "email") -> None:
        self.name, self._settings, self._password = name, settings, password
        self._identity = MailIdentity(name, settings.address.lower())

    async def __aenter__(self) -> Self:
        settings = self._settings
        if settings.inbound and not settings.imap_host:
            text = "channels.email.inbound is on, and channels.email.imap_host is not set"
            raise ChannelFailed(text, permanent=True)
        try:
            await run_sync(self._check_log_in)
        except DeliveryError as error:
            raise ChannelFailed(str(error), permanent=error.permanent) from None
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Each use has its own connection."""

    # -- sending ----------------------------------------------------------------------------------

    async def send(self, message: OutgoingMessage) -> str:
        files = [await read_outgoing_file(each) for each in message.files]
        mail = self._compose(message, files)
        await run_sync(self._deliver, mail)
        return str(mail["Message-ID"]).strip("<>")

    async def open_thread(self, to: Address, title: str, reference: str) -> Address:
        return Address(self.name, chat_of(to, self._settings.home_chat), reference)

    def _compose(self, message: OutgoingMessage, files: list[OutgoingFile]) -> EmailMessage:
        chat, thread = chat_of(message.to, self._settings.home_chat), message.to.thread
        answered = message.reply_to or thread
        mail = EmailMessage(policy=POLICY)
        try:
            mail["To"] = MailAddress(addr_spec=chat)
        except (MessageError, ValueError, IndexError):
            raise DeliveryError(f"{chat!r} is no e-mail address", permanent=True) from None
        mail["From"] = MailAddress("Hermes", addr_spec=self._settings.address)
        mail["Message-ID"] = f"<{own_id(message.key, chat, self._identity)}>"
        mail["Date"] = format_datetime(localtime())
        mail["Auto-Submitted"] = "auto-generated"
        first_line = next((each for each in message.text.splitlines() if each.strip()), "")
        mail["Subject"] = _header_text(first_line)[:MAX_SUBJECT_CHARS] or "Hermes"
        if answered:
            mail["In-Reply-To"] = f"<{_header_text(answered)}>"
            references = dict.fromkeys([thread or answered, answered])
            mail["References"] = " ".join(f"<{_header_text(each)}>" for each in references)
        mail.set_content(message.text)
        for file in files:
            major, _, minor = file.mime_type.partition("/")
            mail.add_attachment(file.data, maintype=major, subtype=minor, filename=file.name)
        return mail

    def _deliver(self, mail: EmailMessage) -> None:
        """Runs in a thread. Raises `DeliveryError`."""
        to, data, handed_over = mail["To"].addresses[0].addr_spec, mail.as_bytes(), False
        client = self._connect_smtp()
        try:
            _expect(client.mail(self._settings.address), "the sender")
            _expect(client.rcpt(to), to)
            handed_over = True
            _expect(client.data(data), "the mail")
        except (smtplib.SMTPServerDisconnected, OSError) as error:
            raise self._failure("sending", error, may_have_arrived=handed_over) from None
        except smtplib.SMTPResponseException as error:  # the answer to the word DATA itself
            raise _refusal(error.smtp_code, error.smtp_error, "the mail") from None
        finally:
            client.close()

    def _check_log_in(self) -> None:
        self._connect_smtp().close()

    def _connect_smtp(self) -> smtplib.SMTP:
        """Raises `DeliveryError`."""
        host, port = self._settings.smtp_host, self._settings.smtp_port
        user = self._settings.user or self._settings.address
        client: smtplib.SMTP | None = None
        try:
            if port == SMTP_TLS_PORT:
                context = ssl.create_default_context()
                client = smtplib.SMTP_SSL(host, port, timeout=TIMEOUT_S, context=context)
            else:
                client = smtplib.SMTP(host, port, timeout=TIMEOUT_S)
                if host not in LOOPBACK_HOSTS:
                    client.starttls(context=ssl.create_default_context())
            client.login(user, self._password)
        except smtplib.SMTPAuthenticationError as error:
            _close(client)
            if error.smtp_code < 500:
                raise _refusal(error.smtp_code, error.smtp_error, "the log-in") from None
            text = f"{host} refused the log-in of {user}: {PASSWORD_ADVICE}"
            raise DeliveryError(text, permanent=True) from None
        except smtplib.SMTPNotSupportedError as error:
            _close(client)
            text = f"{host}:{port} cannot be used: {error}"
            raise DeliveryError(text, permanent=True) from None
        except (smtplib.SMTPException, OSError) as error:
            _close(client)
            raise self._failure(f"{host} cannot be reached", error) from None
        return client

    def _failure(self, what: str, error: Exception, *, may_have_arrived: bool = False) -> Exception:
        text = hide_secrets(f"e-mail: {what}: {error}", [self._password])
        wrong = isinstance(error, ssl.SSLCertVerificationError)
        return DeliveryError(text, permanent=wrong, may_have_arrived=may_have_arrived)

    # -- receiving --------------------------------------------------------------------------------

    async def listen(self) -> AsyncIterator[InboundMessage]:
        if not self._settings.inbound:
            await anyio.sleep_forever()
        client = await self._ask(self._connect_imap)
        try:
            while True:
                for uid in await self._ask(partial(_unseen, client)):
                    data = await self._ask(partial(_fetch, client, uid))
                    if (message := read_mail(data, uid, self._identity)) is not None:
                        yield message
                    await self._ask(partial(_mark_seen, client, uid))
                await anyio.sleep(self._settings.poll)
        finally:
            client.shutdown()

    async def fetch(self, media: MediaItem, max_bytes: int) -> bytes:
        """Reads the mail once more: nothing of it is kept here."""
        uid, number, id = media.reference.split(" ", 2)
        try:
            data = await self._ask(partial(self._fetch_once, uid))
        except ChannelFailed as error:
            raise DeliveryError(str(error), permanent=error.permanent) from None
        again = read_mail(data, uid, self._identity)
        if again is None or again.key != id:
            raise DeliveryError(f"the mail with {media.name} is gone", permanent=True)
        found = [content for _, content in attachments(parse_mail(data))][int(number)]
        if len(found) > max_bytes:
            text = f"{media.name} is larger than {max_bytes:,} bytes"
            raise DeliveryError(text, permanent=True)
        return found

    def _fetch_once(self, uid: str) -> bytes:
        client = self._connect_imap(readonly=True)
        try:
            return _fetch(client, uid)
        finally:
            client.shutdown()

    def _connect_imap(self, *, readonly: bool = False) -> imaplib.IMAP4:
        """Runs in a thread. Raises `ChannelFailed`, or what the library raises."""
        host, port = self._settings.imap_host, self._settings.imap_port
        user = self._settings.user or self._settings.address
        client: imaplib.IMAP4
        if host in LOOPBACK_HOSTS and port != IMAP_TLS_PORT:
            client = imaplib.IMAP4(host, port, timeout=TIMEOUT_S)
        else:
            context = ssl.create_default_context()
            client = imaplib.IMAP4_SSL(host, port, ssl_context=context, timeout=TIMEOUT_S)
        try:
            client.login(user, self._password)
        except imaplib.IMAP4.abort:
            client.shutdown()
            raise
        except imaplib.IMAP4.error:
            client.shutdown()
            text = f"{host} refused the log-in of {user}: {PASSWORD_ADVICE}"
            raise ChannelFailed(text, permanent=True) from None
        status, said = client.select("INBOX", readonly=readonly)
        if status != "OK":
            client.shutdown()
            raise ChannelFailed(f"{host} does not open the inbox: {said!r}"[:300])
        return client

    async def _ask(self, question: Callable[[], T]) -> T:
        """Raises `ChannelFailed`."""
        try:
            return await run_sync(question)
        except (imaplib.IMAP4.error, OSError) as error:
            text = hide_secrets(f"e-mail: {self._settings.imap_host}: {error}", [self._password])
            wrong = isinstance(error, ssl.SSLCertVerificationError)
            raise ChannelFailed(text, permanent=wrong) from None


def _uid(client: imaplib.IMAP4, command: str, *arguments: str) -> list[Any]:
    """A refused command is an error: a mail that could not be read is not marked as seen."""
    status, found = client.uid(command, *arguments)
    if status != "OK":
        raise imaplib.IMAP4.abort(f"{command} was refused: {found!r}"[:300])
    return found


def _unseen(client: imaplib.IMAP4) -> list[str]:
    client.noop()  # new mail is announced after a command, not in the middle of a search
    found = _uid(client, "SEARCH", "UNSEEN")
    return sorted((found[0] or b"").decode().split(), key=int)


def _fetch(client: imaplib.IMAP4, uid: str) -> bytes:
    """Empty where the mail is gone."""
    found = _uid(client, "FETCH", uid, f"(BODY.PEEK[]<0.{MAX_MAIL_BYTES}>)")
    return next((bytes(each[1]) for each in found if isinstance(each, tuple)), b"")


def _mark_seen(client: imaplib.IMAP4, uid: str) -> None:
    _uid(client, "STORE", uid, "+FLAGS.SILENT", r"(\Seen)")


def _close(client: smtplib.SMTP | None) -> None:
    if client is not None:
        client.close()


def _expect(answer: tuple[int, bytes], what: str) -> None:
    code, text = answer
    if not 200 <= code < 300:
        raise _refusal(code, text, what)


def _refusal(code: int, text: bytes | str, what: str) -> DeliveryError:
    words = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
    said = f"the mail server refused {what}: {words[:300]} ({code})"
    if code == 421 or 400 <= code < 500:
        return DeliveryError(said, retry_after_s=RETRY_AFTER_S)
    return DeliveryError(said, permanent=True)


def _header_text(text: str) -> str:
    """Without what would end a header or a Message-ID."""
    return "".join(
        each if each.isprintable() and each not in "<>" else " " for each in text
    ).strip()
