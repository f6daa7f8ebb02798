"""The front door of the `hermes` command: two answers for free, everything else is loaded."""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    if words in (["--version"], ["-V"]):
        from hermes import __version__

        return _say(f"hermes {__version__}\n")
    if words in (["--help"], ["-h"]):
        from hermes.cli.commands import help_text

        return _say(help_text())
    from hermes.cli.front import run

    return run(words)


def _say(text: str) -> int:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        from hermes.cli.front import silence

        return silence()
    return 0
