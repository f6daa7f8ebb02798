"""Commands of chats, such as /stop: read before any model sees them."""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from hermes.agent.conversation import Conversation
from hermes.app.application import Application
from hermes.app.chats.sessions import ChatState
from hermes.app.chats.worker import IdleCommand, SessionWorker
from hermes.core.events.chats import ChatReceived, message_key
from hermes.core.messages import Usage
from hermes.plumbing.problems import closest_name

_COMMAND = re.compile(r"/([a-zA-Z]+)(?:@\w+)?(?:\s+(.*))?", re.DOTALL)
NO_TURN_TEXT = "Nothing is running."


class ChatHost(Protocol):
    """The service that runs the sessions, as chat commands need it."""

    application: Application

    def worker_of(self, state: ChatState) -> SessionWorker: ...
    def running_worker(self, session: str) -> SessionWorker | None: ...
    async def end_session(self, state: ChatState, by: str) -> None: ...
    async def answer_approval(self, event: ChatReceived, approval: str, verb: str) -> str: ...
    async def acknowledge(self, event: ChatReceived, incident: str) -> str: ...
    async def choose_voice(self, event: ChatReceived, *, on: bool) -> None: ...


@dataclass(frozen=True)
class CommandCall:
    host: ChatHost
    event: ChatReceived
    argument: str
    state: ChatState | None
    """The session of the chat; None before its first message."""


@dataclass(frozen=True)
class ChatCommand:
    name: str
    help: str
    run: Callable[[CommandCall], Awaitable[str | None]]
    """Returns the answer; None when the worker of the session gives it."""


def parse_command(text: str) -> tuple[str, str] | None:
    """The name and the argument of `/model gpt`; None for other text, such as a path."""
    found = _COMMAND.fullmatch(text.strip())
    return (found[1].lower(), (found[2] or "").strip()) if found else None


def find_command(name: str) -> ChatCommand | None:
    return next((each for each in CHAT_COMMANDS if each.name == name), None)


def unknown_command_text(name: str) -> str:
    near = closest_name(name, [each.name for each in CHAT_COMMANDS], cutoff=0.5)
    return f"There is no command /{name}; " + (f"did you mean /{near}?" if near else "see /help.")


async def _stop(call: CommandCall) -> str | None:
    worker = call.host.running_worker(call.event.session)
    return None if worker is not None and worker.stop_turn() else NO_TURN_TEXT


async def _new(call: CommandCall) -> str:
    if call.state is not None:
        if call.host.application.has_running_processes(call.state.run):
            return (
                "Background processes of this session are still running, so it stays. "
                "Ask to end them first."
            )
        await call.host.end_session(call.state, call.event.person)
    return "A new session begins with your next message."


async def _undo(call: CommandCall) -> str | None:
    async def undo(conversation: Conversation) -> str:
        text = await conversation.undo()
        return f"Taken back: {text[:200]}" if text is not None else "There is nothing to take back."

    return _when_idle(call, undo)


async def _model(call: CommandCall) -> str | None:
    application, wanted = call.host.application, call.argument

    async def switch(conversation: Conversation) -> str:
        if not wanted:
            return f"{conversation.model.name} answers here. /model NAME chooses another."
        await conversation.switch(await application.checked_model(wanted))
        return f"{conversation.model.name} answers from now on."

    return _when_idle(call, switch)


async def _usage(call: CommandCall) -> str | None:
    async def tell(conversation: Conversation) -> str:
        return _usage_text(conversation.usage)

    return _when_idle(call, tell)


def _when_idle(call: CommandCall, work: Callable[[Conversation], Awaitable[str]]) -> str | None:
    if call.state is None:
        return "There is no session yet: write something first."
    worker = call.host.worker_of(call.state)
    if worker.turn_running:
        return "A turn is running: wait for its end, or /stop it."
    worker.submit_command(IdleCommand(message_key(call.event.message), work))
    return None


async def _status(call: CommandCall) -> str:
    if call.state is None:
        return "No session yet."
    worker = call.host.running_worker(call.event.session)
    working = worker is not None and worker.turn_running
    lines = [f"Session {call.state.run}: {'working' if working else 'idle'}."]
    if worker is not None and worker.waiting:
        lines.append(f"{worker.waiting} messages wait.")
    lines += await _open_questions(call.host.application, call.state.run)
    processes = call.host.application.agent_dependencies.processes
    for process in processes.list(call.state.run) if processes is not None else ():
        if process.status == "running":
            lines.append(f"⚙️ {process.id}: {process.command[:80]}")
    return "\n".join(lines)


async def _open_questions(application: Application, run: str) -> list[str]:
    """A line for each question of the session that waits for a person."""
    from hermes.app.incidents.views import view_approvals

    asked = await view_approvals(application.loaded, application.journal)
    own = [each for each in asked if str(each["run"]).partition("/")[0] == run]
    return [f"❓ {each['id']} waits for an answer: {str(each['action'])[:80]}" for each in own]


async def _approve(call: CommandCall) -> str:
    return await call.host.answer_approval(call.event, call.argument, "once")


async def _deny(call: CommandCall) -> str:
    return await call.host.answer_approval(call.event, call.argument, "deny")


async def _acknowledge(call: CommandCall) -> str:
    return await call.host.acknowledge(call.event, call.argument)


async def _voice(call: CommandCall) -> str:
    chosen = call.argument.lower()
    if chosen not in ("on", "off"):
        return "Write /voice on or /voice off."
    await call.host.choose_voice(call.event, on=chosen == "on")
    if chosen == "off":
        return "Answers here are not spoken any more."
    return "Answers here are also sent as voice messages. /voice off ends that."


async def _help(call: CommandCall) -> str:
    return "\n".join(f"/{each.name} – {each.help}" for each in CHAT_COMMANDS)


def _usage_text(usage: Usage) -> str:
    cost = f", ${usage.cost_usd:.4f}" if usage.cost_usd else ""
    return f"{usage.input_tokens:,} tokens read, {usage.output_tokens:,} written{cost}."


CHAT_COMMANDS = (
    ChatCommand("stop", "stops what is running", _stop),
    ChatCommand("new", "begins a new session", _new),
    ChatCommand("undo", "takes back the last turn", _undo),
    ChatCommand("model", "shows or changes the model", _model),
    ChatCommand("status", "what is going on here", _status),
    ChatCommand("usage", "tokens and cost of this session", _usage),
    ChatCommand("approve", "approves a question: /approve CODE", _approve),
    ChatCommand("deny", "refuses a question: /deny CODE", _deny),
    ChatCommand("ack", "acknowledges an incident: /ack ID", _acknowledge),
    ChatCommand("voice", "whether answers are also spoken: /voice on, /voice off", _voice),
    ChatCommand("help", "this list", _help),
)
