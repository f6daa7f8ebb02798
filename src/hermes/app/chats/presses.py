"""Presses of buttons and answers in words; `app.approval_answers` decides which count."""

from datetime import UTC, datetime, timedelta
from typing import cast, get_args

from msgspec.structs import replace

from hermes.app.application import Application
from hermes.app.chats.incident_threads import describe_briefly, read_report_data
from hermes.app.chats.replies import queue_text
from hermes.app.incidents.actions import acknowledge_incident, mute_incident
from hermes.app.incidents.approval_answers import answer_approval, answer_by_message
from hermes.app.incidents.views import read_incident
from hermes.core.channels import parse_press
from hermes.core.events.chats import ChatReceived
from hermes.core.events.operations import NotificationQueued, NotificationSent
from hermes.gateway.answers import AnswerVerb
from hermes.sre.reports.report_data import read_earlier_incidents
from hermes.sre.reports.report_text import render_report

QUOTED_HISTORY = timedelta(days=2)
"""How far back a quoted question is looked for."""
OLD_BUTTON_TEXT = "This button is of an earlier version and does nothing any more."
CODE_NEEDED_TEXT = "Name the question by its code, as it is shown with it: /approve CODE"


async def answer_press(application: Application, event: ChatReceived) -> str:
    """Raises `HermesError`."""
    loaded, journal = application.loaded, application.journal
    pressed = parse_press(event.message.pressed)
    if pressed is None:
        return OLD_BUTTON_TEXT
    verb, id = pressed
    if verb == "ack":
        return (await acknowledge_incident(loaded, journal, id, person=event.person)).text
    if verb == "mute":
        return (await mute_incident(loaded, journal, id, person=event.person)).text
    if verb == "status":
        return describe_briefly(await read_incident(journal, id))
    if verb == "report":
        return await _send_report(application, event, id)
    outcome = await answer_by_message(loaded, journal, event.message, allowed=True)
    return outcome.text if outcome is not None else OLD_BUTTON_TEXT


async def _send_report(application: Application, event: ChatReceived, id: str) -> str:
    """For everybody, in the thread of the incident."""
    journal = application.journal
    data = await read_report_data(journal, id)
    earlier = await read_earlier_incidents(journal, data.records)
    address = event.message.address
    # Without a thread it was pressed in the home chat, below the message that opened the thread.
    to = str(address) if address.thread else address.channel
    text = queue_text(event.run, to, render_report(data.records, earlier=earlier))
    await application.bus.publish(replace(text, incident=data.incident.details.incident))
    return "The report follows in the thread of the incident."


async def answer_in_words(application: Application, event: ChatReceived) -> str | None:
    """The outcome of `yes 4f2a1c`; None when the message is ordinary talk."""
    approval = await _quoted_approval(application, event)
    outcome = await answer_by_message(
        application.loaded,
        application.journal,
        event.message,
        quoted_approval=approval,
        allowed=True,
    )
    return outcome.text if outcome is not None else None


async def answer_by_command(
    application: Application, event: ChatReceived, approval: str, verb: str
) -> str:
    """The outcome of `/approve 4f2a1c`."""
    if not approval:
        return CODE_NEEDED_TEXT
    assert verb in get_args(AnswerVerb)
    outcome = await answer_approval(
        application.loaded,
        application.journal,
        approval,
        cast("AnswerVerb", verb),
        person=event.person,
        via=event.message.address.channel,
    )
    return outcome.text


async def _quoted_approval(application: Application, event: ChatReceived) -> str:
    """The approval that the quoted message of ours asked for; empty when it asked for none."""
    notices: set[str] = set()
    approvals: dict[str, str] = {}
    since = datetime.now(UTC) - QUOTED_HISTORY
    kinds = ("notice.queued", "notice.sent")
    async for recorded in application.journal.read(kinds=kinds, since=since):
        match recorded.event:
            case NotificationQueued() as queued if queued.approval:
                approvals[queued.notice] = queued.approval
            case NotificationSent() as sent if sent.reference == event.message.quoted:
                notices.add(sent.notice)
            case _:
                pass
    return next((approvals[notice] for notice in notices if notice in approvals), "")
