"""Events on their way out of the house, one a line: into a file, or to our standard output."""

import sys
from collections.abc import Iterable
from pathlib import Path

from hermes.cli.output import say
from hermes.core.errors import HermesError


def write_events(lines: Iterable[bytes], output: Path | None, *, anew: bool = False) -> None:
    """`anew`: only into a file that is not there yet."""
    if output is None:
        sys.stdout.buffer.writelines(line + b"\n" for line in lines)
        return
    count = 0
    try:
        with output.open("xb" if anew else "wb") as file:
            for line in lines:
                file.write(line + b"\n")
                count += 1
    except FileExistsError as error:
        raise HermesError(f"{output} is there already; evidence is not written over") from error
    except OSError as error:
        raise HermesError(f"cannot write {output}: {error.strerror}") from error
    say(f"{count} events written to {output}")
