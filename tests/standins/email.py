"""Strict stand-ins of a mail server: SMTP with AUTH, and IMAP for one mailbox.

They cannot prove: TLS, greylisting, what filters and forwarding do to a mail, whether a server
keeps flags over a restart, and whether a mailbox drops a repeated Message-ID.
"""

import asyncio
import base64
import re
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import make_msgid
from typing import cast

from hermes.core.channels import Address, Channel
from hermes.gateway.channels.email.runtime import EmailChannel
from hermes.gateway.settings import EmailSettings
from hermes.testing.chat_platform import ShownMessage
from standins.common import StandinBase

OWN, PERSON, LIST = "hermes@example.org", "alice@example.org", "oncall@example.org"
PASSWORD = "correct-horse-battery"
MAX_LINE_BYTES = 1_000
AUTH_PLAIN = base64.b64encode(f"\0{OWN}\0{PASSWORD}".encode()).decode()
SENT_HEADERS = {
    "to", "from", "message-id", "date", "auto-submitted", "subject", "in-reply-to", "references",
    "content-type", "content-transfer-encoding", "mime-version",
}  # fmt: skip

Answer = Callable[[str], None]


class EmailStandin(StandinBase):
    secrets = (PASSWORD, AUTH_PLAIN)
    person = PERSON
    group = Address("email", LIST)

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[EmailMessage] = []
        self.mailbox: dict[int, bytes] = {}
        self.seen: set[int] = set()
        self.commands: list[str] = []
        self.refuses_fetch = False
        self.smtp_port = self.imap_port = 0
        self._last_uid = 0
        self._opened = 0
        self._receiving: set[asyncio.StreamWriter] = set()

    # -- what people do ---------------------------------------------------------------------

    def settings(self, **changed: object) -> EmailSettings:
        given: dict[str, object] = {
            "address": OWN, "smtp_host": "127.0.0.1", "smtp_port": self.smtp_port,
            "imap_host": "127.0.0.1", "imap_port": self.imap_port, "inbound": True,
            "poll": 0.01, "home_channel": LIST,
        }  # fmt: skip
        return EmailSettings(**{**given, **changed})  # type: ignore[arg-type]

    def connect(self) -> Channel:
        return EmailChannel(self.settings(), PASSWORD)

    async def write(self, text: str, *, group: bool = False, mention: bool = False) -> str:
        to = [LIST] * group + [OWN] * (mention or not group)
        return self.receive(text, to=", ".join(to))

    def receive(
        self, text: str, *, to: str = OWN, files: dict[str, bytes] | None = None, **headers: str
    ) -> str:
        """A mail of the person; `Reply_To="x"` is a header."""
        mail = EmailMessage()
        values = {"From": f"Alice <{PERSON}>", "To": to, "Message-ID": make_msgid()}
        for name, value in {**values, **headers}.items():
            mail[name.replace("_", "-")] = value
        mail.set_content(text)
        for name, data in (files or {}).items():
            mail.add_attachment(data, maintype="text", subtype="plain", filename=name)
        return self.receive_bytes(mail.as_bytes(policy=policy.SMTP), str(mail["Message-ID"]))

    def receive_bytes(self, data: bytes, id: str = "") -> str:
        self._last_uid += 1
        self.mailbox[self._last_uid] = data
        return id.strip("<>")

    async def repeat_last(self) -> None:
        self.receive_bytes(self.mailbox[self._last_uid])

    async def rewrite(self, reference: str, text: str) -> None:
        """A mail cannot be edited, but two can have the same Message-ID."""
        [old] = [each for each in self.mailbox.values() if reference.encode() in each]
        head = old.partition(b"\r\n\r\n")[0]
        self.receive_bytes(head + b"\r\n\r\n" + text.encode())

    async def quote(self, reference: str, text: str) -> None:
        [mail] = [each for each in self.sent if reference in str(each["Message-ID"])]
        quoted = "\n".join(f"> {line}" for line in mail.get_content().splitlines())
        body = f"{text}\n\nOn Mon, 2 Nov 2026 at 10:00, Hermes <{OWN}> wrote:\n{quoted}\n"
        answers = {"In_Reply_To": f"<{reference}>", "References": f"<{reference}>"}
        self.receive(body, to=f"{OWN}, {LIST}", Subject=f"Re: {mail['Subject']}", **answers)

    async def upload(self, name: str, data: bytes) -> None:
        self.receive("see the file", files={name: data})

    async def press(self, reference: str, data: str) -> None:
        raise AssertionError("a mail has no buttons")

    async def drop_connection(self) -> None:
        for each in self._receiving:
            each.transport.abort()

    def remove(self, reference: str) -> None:
        self.sent = [each for each in self.sent if reference not in str(each["Message-ID"])]

    def receivers(self) -> int:
        return self._opened

    async def receiving(self) -> None:
        while not self._receiving:
            await self.wait_for_change()

    def shown(self) -> list[ShownMessage]:
        return [_shown(each) for each in self.sent]

    # -- the servers ------------------------------------------------------------------------

    @asynccontextmanager
    async def serving(self, host: str = "127.0.0.1") -> AsyncIterator["EmailStandin"]:
        async with AsyncExitStack() as stack:
            smtp = await asyncio.start_server(self._smtp, host, 0, limit=2**16)
            imap = await asyncio.start_server(self._imap, host, 0, limit=2**16)
            self.smtp_port = smtp.sockets[0].getsockname()[1]
            self.imap_port = imap.sockets[0].getsockname()[1]
            for server in (smtp, imap):
                stack.callback(server.close)
            yield self

    async def _smtp(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        def answer(text: str) -> None:
            writer.write(f"{text}\r\n".encode())

        state = "new"
        answer("220 mail.example.org ESMTP")
        while line := await reader.readline():
            command = line.decode().rstrip("\r\n")
            verb = command.split(":")[0].upper()
            self.commands.append(verb.split()[0])
            if verb.startswith("EHLO"):
                answer("250-mail.example.org\r\n250-SIZE 20000000\r\n250 AUTH PLAIN")
            elif verb.startswith("AUTH PLAIN "):
                refused = self._failures[:1] == ["refused token"]
                if refused:
                    self.take_failure()
                right = command.split()[2] == AUTH_PLAIN and not refused
                state = "ready" if right else state
                answer("235 2.7.0 OK" if right else "535 5.7.8 authentication failed")
            elif verb == "MAIL FROM" and state == "ready" and f"<{OWN}>" in command:
                state = "mail"
                answer("250 OK")
            elif verb == "RCPT TO" and state == "mail":
                state = self._answer_recipient(command, answer)
            elif verb == "DATA" and state == "data":
                answer("354 go on")
                await writer.drain()
                if not await self._take_mail(reader, answer):
                    writer.transport.abort()
                    return
                state = "ready"
            else:
                self.complain(f"SMTP: {verb} while {state}")
                answer("503 5.5.1 bad sequence")
            await writer.drain()
        writer.close()

    def _answer_recipient(self, command: str, answer: Answer) -> str:
        if self._failures[:1] == ["rate limit"]:
            self.take_failure()
            answer("450 4.7.1 too many mails, try again later")
        elif "nobody@" in command:
            answer("550 5.1.1 no such user")
        else:
            answer("250 OK")
            return "data"
        return "ready"

    async def _take_mail(self, reader: asyncio.StreamReader, answer: Answer) -> bool:
        """False: the connection ends without an answer."""
        lines = list[bytes]()
        while (line := await reader.readline()) != b".\r\n":
            if not line.endswith(b"\r\n") or len(line) > MAX_LINE_BYTES or not line.isascii():
                self.complain(f"SMTP: the line {line[:80]!r}")
            lines.append(line[1:] if line.startswith(b"..") else line)
        failure = self.take_failure()
        if failure == "server error":
            answer("451 4.3.0 disk full")
            return True
        mail = cast(EmailMessage, message_from_bytes(b"".join(lines), policy=policy.default))
        unknown = {each.lower() for each in mail.keys()} - SENT_HEADERS  # noqa: SIM118
        if unknown or mail.defects or not str(mail["Message-ID"]).endswith("@example.org>"):
            self.complain(f"SMTP: {unknown}, {mail.defects}, {mail['Message-ID']}")
        self.sent.append(mail)
        if failure != "lost answer":
            answer("250 2.0.0 queued")
        return failure != "lost answer"

    async def _imap(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"* OK IMAP4rev1 ready\r\n")
        state = "new"
        while line := await reader.readline():
            tag, _, command = line.decode().rstrip("\r\n").partition(" ")
            verb = command.split()[0].upper()
            done = f"{tag} OK done\r\n".encode()
            if verb == "CAPABILITY":
                writer.write(b"* CAPABILITY IMAP4rev1\r\n" + done)
            elif verb == "LOGIN" and state == "new":
                right = command == f'LOGIN {OWN} "{PASSWORD}"'
                state = "in" if right else state
                writer.write(done if right else f"{tag} NO authentication failed\r\n".encode())
            elif command in ("SELECT INBOX", "EXAMINE INBOX") and state == "in":
                state = verb
                if verb == "SELECT":
                    self._opened += 1
                    self._receiving.add(writer)
                    self.changed()
                writer.write(f"* {len(self.mailbox)} EXISTS\r\n".encode() + done)
            elif verb == "NOOP":
                writer.write(done)
            elif command.startswith("UID FETCH") and self.refuses_fetch:
                writer.write(f"{tag} NO try again later\r\n".encode())
            elif verb == "UID" and state in ("SELECT", "EXAMINE"):
                writer.write(self._uid_answer(command, readonly=state == "EXAMINE") + done)
            else:
                self.complain(f"IMAP: {verb} while {state}")
                writer.write(f"{tag} BAD unknown\r\n".encode())
            await writer.drain()
        self._receiving.discard(writer)
        writer.close()

    def _uid_answer(self, command: str, *, readonly: bool) -> bytes:
        if command == "UID SEARCH UNSEEN":
            found = [str(uid) for uid in self.mailbox if uid not in self.seen]
            return " ".join(["* SEARCH", *found]).encode() + b"\r\n"
        if found := re.fullmatch(r"UID FETCH (\d+) \(BODY\.PEEK\[\]<0\.(\d+)>\)", command):
            uid, limit = int(found[1]), int(found[2])
            data = self.mailbox[uid][:limit]
            head = f"* {uid} FETCH (UID {uid} BODY[]<0> {{{len(data)}}}\r\n"
            return head.encode() + data + b")\r\n"
        if found := re.fullmatch(r"UID STORE (\d+) \+FLAGS\.SILENT \(\\Seen\)", command):
            if readonly:
                self.complain("IMAP: a flag is set in a mailbox that is only read")
            self.seen.add(int(found[1]))
            return b""
        self.complain(f"IMAP: {command}")
        return b""


def _shown(mail: EmailMessage) -> ShownMessage:
    body = mail.get_body(("plain",))
    references = str(mail["References"] or "").split()
    return ShownMessage(
        reference=str(mail["Message-ID"]).strip("<>"),
        chat=mail["To"].addresses[0].addr_spec,
        thread=references[0].strip("<>") if references else "",
        text=body.get_content().replace("\r\n", "\n").removesuffix("\n")
        if body is not None
        else "",
        reply_to=str(mail["In-Reply-To"] or "").strip("<>"),
        files=[
            (each.get_filename() or "", cast(bytes, each.get_payload(decode=True)))
            for each in mail.iter_attachments()
        ],
    )
