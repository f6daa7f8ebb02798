"""Entry point of the `hermes` command. `--version` and `--help` load nothing else."""

import sys

TYPE_CHECKING = False  # see hermes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence


def main(arguments: "Sequence[str] | None" = None) -> int:
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        return _run_command(words)
    except KeyboardInterrupt:  # while modules are loaded; later ones are handled by `run_command`
        sys.stderr.write("hermes: interrupted\n")
        return 130


def _run_command(words: list[str]) -> int:
    if words in (["--version"], ["-V"]):
        from hermes import __version__

        return _write_stdout(f"hermes {__version__}\n")
    if words in (["--help"], ["-h"]):
        from hermes.cli.commands import help_text

        return _write_stdout(help_text())
    from hermes.cli.root_command import run_command

    return run_command(words)


def _write_stdout(text: str) -> int:
    if sys.stdout is None:
        return 0
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except OSError as error:
        from hermes.cli.root_command import report_unwritable_output

        return report_unwritable_output(error)
    return 0
