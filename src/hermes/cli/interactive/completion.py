"""Completes slash commands and their arguments; plain words are left alone."""

from collections.abc import AsyncGenerator, Iterable

from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document

from hermes.cli.interactive.commands import COMMANDS, find
from hermes.cli.interactive.desk import Desk


class SlashCompleter(Completer):
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def get_completions(
        self, document: Document, complete_event: CompleteEvent
    ) -> Iterable[Completion]:
        return ()  # arguments are looked up in the journal, which takes the other road

    async def get_completions_async(
        self, document: Document, complete_event: CompleteEvent
    ) -> AsyncGenerator[Completion, None]:
        before = document.text_before_cursor
        if not before.startswith("/") or "\n" in before:
            return
        name, space, argument = before[1:].partition(" ")
        if not space:
            for command in COMMANDS:
                if command.name.startswith(name.lower()):
                    yield Completion(command.name, -len(name), display_meta=command.help)
            return
        for word in await self._words(name):
            if word.startswith(argument) or (argument and argument in word):
                yield Completion(word, -len(argument))

    async def _words(self, name: str) -> Iterable[str]:
        command = find(name)
        return await command.complete(self._desk) if command and command.complete else ()
