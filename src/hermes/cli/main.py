"""The front door of the `hermes` command: two answers for free, everything else is loaded."""

import sys

TYPE_CHECKING = False  # see hermes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: "Sequence[str] | None" = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _answer(words)
    except KeyboardInterrupt:  # while the rest was being loaded: later ones have their own end
        sys.stderr.write("hermes: interrupted\n")
        return 130


def _answer(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        from hermes import __version__

        return _say(f"hermes {__version__}\n")
    if words in (["--help"], ["-h"]):
        from hermes.cli.commands import help_text

        return _say(help_text())
    from hermes.cli.front import run

    return run(words)


def _say(text: str) -> int:
    if sys.stdout is None:
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        from hermes.cli.front import unwritable

        return unwritable(error)
    return 0
