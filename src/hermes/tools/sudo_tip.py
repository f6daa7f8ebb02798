"""What to do when sudo wanted a password and nobody gave it one."""

import re

from hermes.core.protocols import CommandResult, Environment

TIP = (
    "[sudo needs a password here. Set SUDO_PASSWORD in ~/.hermes/.env and start anew: sudo alone "
    "is told it, never the command, the journal or the model. Or let sudoers allow this command "
    "without one]"
)
_WANTED = re.compile(
    r"^sudo: (?:a password is required|a terminal is required|no tty present)", re.MULTILINE
)
_COMPLAINT = re.compile(r"^sudo: ", re.MULTILINE)
_KNOWN = re.compile(r"^hermes: ", re.MULTILINE)
"""The helper of a known password has said what is wrong."""
_PROBE = "LC_ALL=C command sudo -n true"


def tip_in(output: str) -> str:
    """The tip, if the output shows that it is needed."""
    return TIP if _WANTED.search(output) and not _KNOWN.search(output) else ""


async def tip_for(result: CommandResult, environment: Environment) -> str:
    """As `tip_in`; where sudo speaks another language, it is asked whether it needs a password."""
    tip = tip_in(result.output)
    if tip or result.exit_code == 0 or result.timed_out:
        return tip
    if not _COMPLAINT.search(result.output) or _KNOWN.search(result.output):
        return ""
    return tip_in((await environment.run(_PROBE, timeout=10)).output)
