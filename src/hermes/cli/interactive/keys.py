"""What the keys do at the prompt, where they differ from those of any line editor."""

from collections.abc import Callable

from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent


def bind(
    buffer: Buffer, *, interrupt: Callable[[], None], leave: Callable[[], None]
) -> KeyBindings:
    keys = KeyBindings()

    @keys.add("enter")
    def _(event: KeyPressEvent) -> None:
        before = buffer.document.current_line_before_cursor
        if before.endswith("\\") and buffer.document.is_cursor_at_the_end_of_line:
            buffer.delete_before_cursor()
            buffer.newline(copy_margin=False)
        elif buffer.complete_state and buffer.complete_state.current_completion:
            buffer.complete_state = None  # chosen from the menu: the next Enter sends it
        else:
            buffer.validate_and_handle()

    @keys.add("escape", "enter")
    def _(event: KeyPressEvent) -> None:
        buffer.newline(copy_margin=False)

    @keys.add("c-c")
    @keys.add("<sigint>")
    def _(event: KeyPressEvent) -> None:
        interrupt()

    @keys.add("c-d")
    def _(event: KeyPressEvent) -> None:
        if buffer.text:
            buffer.delete()
        else:
            leave()

    return keys
