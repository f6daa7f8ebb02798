"""Where things stand on the screen: live text, the input, and the menu below it."""

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition, is_done
from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples
from prompt_toolkit.layout import (
    BufferControl,
    ConditionalContainer,
    Dimension,
    Float,
    FloatContainer,
    FormattedTextControl,
    HSplit,
    Layout,
    Window,
)
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import BeforeInput

MENU = 8
"""Rows of the completion menu, and of the input before it scrolls."""


def arrange(
    buffer: Buffer, *, above: Callable[[], ANSI], prefix: Callable[[], StyleAndTextTuples]
) -> Layout:
    live = ConditionalContainer(
        Window(FormattedTextControl(above), dont_extend_height=True),
        Condition(lambda: bool(above().value)),
    )
    entry = Window(
        BufferControl(buffer, input_processors=[BeforeInput(prefix)]),
        height=Dimension(min=1, max=MENU),
        dont_extend_height=True,
        wrap_lines=True,
    )
    # Room for the menu is taken only while there is one, so that the input sits low.
    room = ConditionalContainer(
        Window(height=MENU), Condition(lambda: buffer.complete_state is not None)
    )
    body = FloatContainer(
        HSplit([live, entry, room]),
        [Float(CompletionsMenu(max_height=MENU), xcursor=True, ycursor=True)],
    )
    # When the chat is over nothing of the input stays behind on the screen.
    return Layout(ConditionalContainer(body, ~is_done), focused_element=entry)
