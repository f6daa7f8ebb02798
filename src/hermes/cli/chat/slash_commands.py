"""The slash commands of the chat: the table, the actions, completion and /save."""

import os
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from pathlib import Path

import msgspec
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.cli.chat.session import (
    TURN_ACTIVITY,
    ChatSession,
    SlashCommand,
    find_slash_command,
)
from hermes.cli.context import run_to_resume
from hermes.cli.render.lines import format_usage, message_lines
from hermes.cli.render.terminal_text import clean, clip, display_width
from hermes.core.errors import HermesError, SettingsError
from hermes.core.events.runs import ModelAnswered, RunDeleted, RunRenamed, RunStarted
from hermes.core.messages import Message

MAX_RECENT_RUNS = 20


async def show_rows(session: ChatSession, rows: Sequence[tuple[str, str]]) -> None:
    """Print two columns; on a narrow terminal, one below the other."""
    width = session.terminal.width
    left = max((display_width(clean(name)) for name, _ in rows), default=0)
    style = session.display.style
    lines = []
    for name, about in rows:
        name, about = clean(name), clean(about)
        if left + 20 > width:
            lines += [style.cyan(clip(name, width)), f"  {clip(about, width - 2)}"]
        else:
            padded = name + " " * (left - display_width(name))
            lines.append(f"{style.cyan(padded)}  {clip(about, width - left - 2)}")
    await session.terminal.print("\n".join(lines))


async def show_tools(session: ChatSession, argument: str) -> None:
    await show_rows(session, session.info.tools or [("none", "this session has no tools")])


async def use_prompt(session: ChatSession, argument: str) -> None:
    """The person asks for it in words; what the server answers stays the words of the server."""
    servers = await prompt_servers(session)
    server, _, rest = argument.partition(" ")
    name, _, values = rest.strip().partition(" ")
    if not servers:
        await session.note("no MCP server with prompts; see: hermes mcp list", "error")
    elif server not in servers or (values and "=" not in values):
        usage = "/prompt SERVER [NAME key=value …]"
        await session.note(f"{usage}; servers with prompts: {', '.join(servers)}", "error")
    elif not name:
        await session.conversation.say(f"List the prompts of the MCP server {server}.")
    else:
        with_values = f" with {values.strip()}" if values.strip() else ""
        words = f"Use the prompt {name} of the MCP server {server}{with_values}."
        await session.conversation.say(words)


async def prompt_servers(session: ChatSession) -> Sequence[str]:
    names = (name for name, _ in session.info.tools)
    found = (name.removeprefix("mcp_") for name in names if name.startswith("mcp_"))
    return sorted(each.removesuffix("_prompts") for each in found if each.endswith("_prompts"))


async def show_skills(session: ChatSession, argument: str) -> None:
    await show_rows(session, session.info.skills or [("none", "no skill has been learned yet")])


async def show_usage(session: ChatSession, argument: str) -> None:
    run, answers = session.conversation.run, Counter[str]()
    async for recorded in session.application.journal.read(run=run, kinds=("model.answered",)):
        if isinstance(recorded.event, ModelAnswered):
            answers[recorded.event.model] += 1
    by = ", ".join(f"{count} by {model}" for model, count in answers.items())
    rows = [("session", format_usage(session.conversation.usage)), ("answers", by or "none yet")]
    await show_rows(session, rows)


async def show_status(session: ChatSession, argument: str) -> None:
    info = session.info
    rows = [
        ("session", session.conversation.run),
        ("model", session.conversation.model.name),
        ("folder", info.directory),
        ("environment", info.environment),
        ("tools", str(len(info.tools))),
        ("skills", str(len(info.skills))),
        ("messages", str(len(session.conversation.messages))),
        ("usage", format_usage(session.conversation.usage)),
        ("now", session.transcript.current_activity or session.activity or "waiting for you"),
        ("version", info.version),
    ]
    await show_rows(session, [row for row in rows if row[1]])


async def show_history(session: ChatSession, argument: str) -> None:
    lines = message_lines(session.conversation.messages, session.terminal.width)
    await session.terminal.print("\n".join(lines) or "there are no messages yet")


async def model_names(session: ChatSession) -> Sequence[str]:
    return session.info.models


async def personality_names(session: ChatSession) -> Sequence[str]:
    return sorted(session.info.personalities)


async def run_names(session: ChatSession) -> Sequence[str]:
    """Return sessions that are not subagents, the newest first."""
    runs: dict[str, None] = {}
    kinds = ("run.started", "run.deleted")
    async for recorded in session.application.journal.read(kinds=kinds):
        event = recorded.event
        if isinstance(event, RunStarted) and not event.parent:
            runs[event.run] = None
        elif isinstance(event, RunDeleted):
            runs.pop(event.run, None)
    return list(reversed(runs))[:MAX_RECENT_RUNS]


def save_conversation(name: str, *, run: str, messages: Sequence[Message]) -> str:
    """Write the messages to a new file and return a summary. Raises `SettingsError`."""
    wanted = Path(name or f"hermes-{run}.md").expanduser()
    text = _as_json(run, messages) if wanted.suffix.lower() == ".json" else _as_text(run, messages)
    try:
        written = _write_new(wanted, text)
    except OSError as error:
        raise SettingsError(f"cannot write {wanted}: {error.strerror}") from error
    message = f"saved {len(messages)} messages to {written}"
    return message if written == wanted else f"{wanted} exists and was left alone; {message}"


def _write_new(wanted: Path, text: str) -> Path:
    for path in _candidate_paths(wanted):
        try:
            # Readable only by the owner: conversations contain what tools have read.
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            continue
        with os.fdopen(handle, "w", encoding="utf-8", errors="replace") as file:
            file.write(text)
        return path
    raise AssertionError("unreachable: the names never end")


def _candidate_paths(wanted: Path) -> Iterator[Path]:
    yield wanted
    number = 2
    while True:
        yield wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
        number += 1


def _as_json(run: str, messages: Sequence[Message]) -> str:
    whole = msgspec.json.encode({"run": run, "messages": messages})
    return msgspec.json.format(whole).decode() + "\n"


def _as_text(run: str, messages: Sequence[Message]) -> str:
    parts = [f"# {run}"]
    for message in messages:
        if message.result is not None:
            parts.append(f"**{message.result.status}**\n\n{_fence_text(message.result.content)}")
        elif message.role != "system" and message.text:
            parts.append(f"## {message.role}\n\n{message.text}")
        for call in message.calls:
            arguments = msgspec.json.format(msgspec.json.encode(call.arguments)).decode()
            parts.append(f"### {call.name}\n\n{_fence_text(arguments)}")
    return "\n\n".join(parts) + "\n"


def _fence_text(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}\n{text}\n{fence}"


def tone_instruction(name: str, text: str) -> str:
    """Return a prefix for the next message: a new system prompt would invalidate the cache."""
    if not text:
        return "[From now on answer in your usual tone again.]\n\n"
    return f"[From now on always answer in this tone ({name}): {text}]\n\n"


async def clear_screen(session: ChatSession, argument: str) -> None:
    await session.terminal.clear()


async def start_session(session: ChatSession, argument: str) -> None:
    session.switch_conversation(await session.application.begin())
    await session.note(f"a new session: {session.conversation.run}")


async def switch_model(session: ChatSession, argument: str) -> None:
    if not argument:
        await show_rows(session, [("model", session.conversation.model.name)])
        return
    try:
        chosen = await session.application.checked_model(argument)
    except HermesError as error:
        still = f"the model is still {session.conversation.model.name}"
        await session.note(f"{clean(str(error))}\n{still}", "error")
        return
    await session.conversation.switch(chosen)


async def compress_context(session: ChatSession, argument: str) -> None:
    if await session.conversation.compress() is None:
        await session.note("there is nothing to compress yet")


async def undo_turn(session: ChatSession, argument: str) -> None:
    words = await session.conversation.undo()
    if words is None:
        await session.note("there is nothing to undo", "error")
        return
    await session.note(
        f"undone: {clip(clean(words), 60)}\nthe effects of tool calls are not undone"
    )


async def retry_turn(session: ChatSession, argument: str) -> None:
    words = await session.conversation.undo()
    if words is None:
        await session.note("there is nothing to ask again", "error")
        return
    await session.note(f"again: {clip(clean(words), 60)}")
    await session.conversation.say(words)


async def save_session(session: ChatSession, argument: str) -> None:
    written = save_conversation(
        argument, run=session.conversation.run, messages=session.conversation.messages
    )
    await session.note(written)


async def choose_personality(session: ChatSession, argument: str) -> None:
    known = session.info.personalities
    if not argument:
        await show_rows(session, sorted(known.items()))
    elif argument not in known:
        await session.note(
            f"no personality {argument!r}; there are: {', '.join(sorted(known))}", "error"
        )
    else:
        session.tone_instruction = tone_instruction(argument, known[argument])
        await session.note(f"{argument}: from your next message on")


async def resume_session(session: ChatSession, argument: str) -> None:
    now = session.conversation.run
    wanted = await run_to_resume(session.application.journal, argument, excluded_run=now)
    if not wanted:
        await session.note("there is no other session yet", "error")
        return
    session.switch_conversation(await session.application.resume(wanted))
    await session.show_resumed()


async def set_title(session: ChatSession, argument: str) -> None:
    if not argument:
        await session.note("give it a name: /title NAME", "error")
        return
    await session.application.bus.publish(RunRenamed(run=session.conversation.run, title=argument))
    await session.note(f"this session is now called {clean(argument)}")


async def stop_activity(session: ChatSession, argument: str) -> None:
    if not session.stop():
        await session.note("nothing is running")


async def toggle_verbose(session: ChatSession, argument: str) -> None:
    more = not session.transcript.tool_progress.verbose
    session.transcript.tool_progress.verbose = more
    session.transcript.answer_stream.reasoning = more or session.display.reasoning
    await session.note("showing more: results and reasoning" if more else "showing less")


async def leave_chat(session: ChatSession, argument: str) -> None:
    session.terminal.close()


async def _show_help(session: ChatSession, argument: str) -> None:
    rows = []
    for command in SLASH_COMMANDS:
        usage = f"/{command.name} {command.argument}".strip()
        rows.append((usage, command.help))
    await show_rows(session, rows)
    await session.note(
        "Alt-Enter or a backslash at the end starts a new line. While a turn runs, what you "
        "type steers it; Ctrl-C stops it. Ctrl-D leaves."
    )


SLASH_COMMANDS = (
    SlashCommand("help", "this list", _show_help, aliases=("h", "?")),
    SlashCommand("clear", "clear the screen; the conversation stays", clear_screen),
    SlashCommand(
        "new", "start a new session", start_session, activity="opening", aliases=("reset",)
    ),
    SlashCommand(
        "model",
        "show the model, or test another and switch to it",
        switch_model,
        "[ref]",
        model_names,
        activity="testing the model",
    ),
    SlashCommand("tools", "what the agent can do", show_tools),
    SlashCommand("skills", "what it has learned", show_skills),
    SlashCommand(
        "prompt",
        "use a prompt of an MCP server, or list them",
        use_prompt,
        "SERVER [NAME key=value …]",
        prompt_servers,
        activity=TURN_ACTIVITY,
    ),
    SlashCommand("compress", "sum up older messages now", compress_context, activity="compressing"),
    SlashCommand("usage", "tokens and money so far", show_usage, aliases=("cost",)),
    SlashCommand("undo", "undo the last turn", undo_turn, activity="undoing"),
    SlashCommand("retry", "undo the last turn and ask again", retry_turn, activity=TURN_ACTIVITY),
    SlashCommand("save", "write the conversation to a .md or .json file", save_session, "[file]"),
    SlashCommand(
        "personality",
        "show or change the tone of the answers",
        choose_personality,
        "[name]",
        personality_names,
    ),
    SlashCommand("status", "model, folder, environment, session", show_status),
    SlashCommand("history", "messages of this session", show_history),
    SlashCommand(
        "resume",
        "continue another session",
        resume_session,
        "[run]",
        run_names,
        activity=TURN_ACTIVITY,
    ),
    SlashCommand("title", "give this session a name", set_title, "NAME"),
    SlashCommand("stop", "interrupt the running turn", stop_activity),
    SlashCommand(
        "verbose", "show more, or less, of what tools do and models think", toggle_verbose
    ),
    SlashCommand("exit", "leave; the session can be resumed", leave_chat, aliases=("quit", "q")),
)


class SlashCompleter(Completer):
    def __init__(self, session: ChatSession) -> None:
        self._session = session

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        return ()  # arguments come from the journal: see get_completions_async

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if not before.startswith("/") or "\n" in before:
            return
        name, space, argument = before[1:].partition(" ")
        if not space:
            for command in self._session.commands:
                if command.name.startswith(name.lower()):
                    yield Completion(command.name, -len(name), display_meta=command.help)
            return
        for word in await self._words(name):
            if word.startswith(argument) or (argument and argument in word):
                yield Completion(word, -len(argument))

    async def _words(self, name: str) -> Iterable[str]:
        command = find_slash_command(self._session.commands, name)
        return await command.complete(self._session) if command and command.complete else ()
