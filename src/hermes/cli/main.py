"""Entry point of the `hermes` command. `--version` and `--help` load nothing else."""

import gc
import sys

TYPE_CHECKING = False  # see hermes/__init__.py
if TYPE_CHECKING:
    from collections.abc import Sequence


FIRST_COLLECTION_OBJECTS = 100_000
"""New objects before the garbage collector runs for the first time. With Python's 700, the imports
of one question start it a hundred times, and it finds nothing."""


def main(arguments: "Sequence[str] | None" = None) -> int:
    """Without arguments this is the whole process, which ends afterwards."""
    if arguments is not None:
        return _run(list(arguments))
    _delay_first_collection()
    try:
        return _run(sys.argv[1:])
    finally:
        gc.freeze()  # the end of Python would search everything that was loaded for garbage


def _delay_first_collection() -> None:
    usual = gc.get_threshold()

    def restore(phase: str, info: "dict[str, int]") -> None:
        gc.set_threshold(*usual)
        gc.callbacks.remove(restore)

    gc.set_threshold(FIRST_COLLECTION_OBJECTS, *usual[1:])
    gc.callbacks.append(restore)


def _run(words: list[str]) -> int:
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
