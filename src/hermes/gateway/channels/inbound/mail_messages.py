"""Reads mails into messages: what the person typed, and apart from it what others wrote.

A chat is the address of a person, or of the list or other recipient that a mail went to as well.
References are Message-IDs without their angle brackets; a thread is the first of `References`.
"""

import hashlib
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from email import message_from_bytes, policy
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from html.parser import HTMLParser
from typing import NamedTuple

from hermes.core.channels import Address, AttachedText, InboundMessage, MediaItem

MESSAGE_ID = re.compile(r"<([^<>\s]{1,250})>")
ATTRIBUTION = re.compile(r"^\s*(?:On|Am|Le|El|Il|Op)\b.{4,200}:\s*$")
SEPARATOR = re.compile(
    r"^\s*(?:-{2,}\s*(?:Original|Forwarded|Ursprüngliche|Weitergeleitete)\b.*|_{10,}"
    r"|Begin forwarded message:|(?:From|Von|De): .+)\s*$",
    re.IGNORECASE,
)
ANSWER_SUBJECT = re.compile(
    r"^\s*(?:re|aw|fwd?|wg|antw|sv|tr|rv)\s*(?:\[\d+\])?\s*:", re.IGNORECASE
)
PARSER_ERRORS = (ValueError, LookupError, AttributeError, TypeError)
"""What the parser of the standard library raises for mails that are malformed on purpose."""


class MailIdentity(NamedTuple):
    """Who we are: the name of the channel and our address, in lower case."""

    channel: str
    address: str


class TypedText(NamedTuple):
    typed: str
    quoted: str


def parse_mail(data: bytes) -> EmailMessage:
    return message_from_bytes(data, policy=policy.default)


def read_mail(data: bytes, uid: str, identity: MailIdentity) -> InboundMessage | None:
    """Return None when it is from a program or ourselves, has several senders, or is unreadable."""
    try:
        return _read(parse_mail(data), data, uid, identity)
    except PARSER_ERRORS:
        return None


def _read(
    mail: EmailMessage, data: bytes, uid: str, identity: MailIdentity
) -> InboundMessage | None:
    senders = _addresses(mail, "From")
    if len(senders) != 1 or len(mail.get_all("From", [])) != 1 or _is_automatic(mail):
        return None
    [(sender, sender_name)] = senders.items()
    if sender == identity.address:
        return None
    id = next(iter(_ids(mail, "Message-ID")), "") or hashlib.sha256(data).hexdigest()
    answered = (_ids(mail, "In-Reply-To") or [""])[0]
    references = _ids(mail, "References") or ([answered] if answered else [])
    text, attached = _words(mail, is_answer=bool(references))
    media = tuple(_media(mail, uid, id))
    if not (text or attached or media):
        return None
    named = [*_addresses(mail, "To"), *_addresses(mail, "Cc")]
    others = [each for each in named if each != identity.address]
    return InboundMessage(
        key=id,
        address=Address(
            identity.channel,
            others[0] if others else sender,
            references[0] if references else "",
        ),
        sender=sender,
        sender_name=sender_name,
        text=text,
        attached=attached,
        media=media,
        reference=id,
        quoted=answered,
        direct=not others,
        mentioned=identity.address in _addresses(mail, "To") or is_own_id(answered, identity),
        sent_at=_date(str(mail["Date"] or "")),
    )


def own_id(key: str, to: str, identity: MailIdentity) -> str:
    """The Message-ID of a mail of ours, the same for every attempt to send it."""
    digest = hashlib.sha256(f"{key}\n{to}".encode()).hexdigest()[:40]
    return f"hermes.{digest}@{identity.address.rpartition('@')[2]}"


def is_own_id(id: str, identity: MailIdentity) -> bool:
    return id.startswith("hermes.") and id.endswith("@" + identity.address.rpartition("@")[2])


def split_quoted(text: str) -> TypedText:
    """Return what stands above the first quoted line, or below it where nothing stands above."""
    lines = text.splitlines()
    start = next((at for at, line in enumerate(lines) if _begins_quote(lines, at)), len(lines))
    typed, end = "\n".join(lines[:start]).strip(), start
    if typed or start == len(lines):
        return TypedText(typed, "\n".join(lines[start:]).strip())
    while end < len(lines) and (
        lines[end].startswith(">") or ATTRIBUTION.match(lines[end]) or not lines[end].strip()
    ):
        end += 1
    below = [each for each in lines[end:] if each.strip()]
    if end == start or any(_begins_quote(below, at) for at in range(len(below))):
        return TypedText("", "\n".join(lines[start:]).strip())
    return TypedText("\n".join(lines[end:]).strip(), "\n".join(lines[start:end]).strip())


def _begins_quote(lines: list[str], at: int) -> bool:
    line = lines[at]
    if line.startswith(">") or SEPARATOR.match(line) or line.rstrip("\r\n") == "-- ":
        return True
    following = next((each for each in lines[at + 1 :] if each.strip()), "")
    return bool(ATTRIBUTION.match(line)) and following.startswith(">")


def _words(mail: EmailMessage, *, is_answer: bool) -> tuple[str, tuple[AttachedText, ...]]:
    """HTML can show other words than it contains, so that nothing in it counts as typed."""
    body, subject = mail.get_body(("plain", "html")), str(mail["Subject"] or "").strip()
    text, attached = "", list[AttachedText]()
    if body is not None and body.get_content_type() == "text/plain":
        text, quoted = split_quoted(str(body.get_content()))
        attached += [AttachedText("quote", quoted)] if quoted else []
    elif body is not None and (shown := html_text(str(body.get_content()))):
        attached.append(AttachedText("quote", shown))
    if subject and not is_answer and not ANSWER_SUBJECT.match(subject):
        text = f"{subject}\n\n{text}".strip()
    return text, tuple(attached)


class HtmlText(HTMLParser):
    """Collects the words of a page, without scripts and styles."""

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("script", "style", "head")
        if tag in ("br", "p", "div", "tr", "li"):
            self.words.append("\n")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style", "head"):
            self._hidden = max(0, self._hidden - 1)

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data)


def html_text(page: str) -> str:
    parser = HtmlText()
    parser.feed(page)
    parser.close()
    return re.sub(r"\n\s*\n+", "\n\n", "".join(parser.words)).strip()


def attachments(mail: EmailMessage) -> Iterator[tuple[EmailMessage, bytes]]:
    for part in mail.iter_attachments():
        payload = part.get_payload(decode=True)
        data = payload if isinstance(payload, bytes) else part.as_bytes()
        yield part, data


def _media(mail: EmailMessage, uid: str, id: str) -> Iterator[MediaItem]:
    for number, (part, data) in enumerate(attachments(mail)):
        major = part.get_content_maintype()
        yield MediaItem(
            kind="image" if major == "image" else "audio" if major == "audio" else "file",
            reference=f"{uid} {number} {id}",
            name=str(part.get_filename() or ""),
            size=len(data),
        )


def _is_automatic(mail: EmailMessage) -> bool:
    """Answers to programs are how two of them talk to each other for ever."""
    submitted = str(mail["Auto-Submitted"] or "no").strip().lower()
    bounced = str(mail["Return-Path"] or "").strip() == "<>"
    return submitted != "no" or bounced or mail.get_content_type() == "multipart/report"


def _date(header: str) -> datetime | None:
    """Return None where it cannot be read: that is no reason not to hear the mail."""
    try:
        found = parsedate_to_datetime(header)
    except (ValueError, TypeError):
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _ids(mail: EmailMessage, header: str) -> list[str]:
    return MESSAGE_ID.findall(str(mail[header] or ""))


def _addresses(mail: EmailMessage, header: str) -> dict[str, str]:
    """By address in lower case: the name beside it."""
    found = {}
    for value in mail.get_all(header, []):
        for each in value.addresses:
            if each.username and each.domain:
                found[each.addr_spec.lower()] = each.display_name
    return found
