"""Loads the rules of the packet filter that are in force on a host into a copy of it.

The copy has a network of its own, with loopback alone: rules that name another interface by its
number cannot be loaded there.
"""

import re
import shutil
import subprocess

import anyio

from hermes.core.errors import EnvironmentFailed
from hermes.environments.boxes.box import Box
from hermes.environments.boxes.host_setup import IP_COMMAND_PATH
from hermes.environments.sandboxing.host_access import is_root

LIST_RULES = ("-s", "list", "ruleset")
READ_TIMEOUT_S = 2.0
MAX_TRIES = 4
"""Each without the lines that could not be loaded before."""
WHAT = "the rules of the packet filter"
_BAD_LINE = re.compile(r"^/dev/stdin:(\d+):", re.MULTILINE)


async def read_local_rules() -> tuple[str, str]:
    """The rules of this machine, or why they are not known; both are empty without nft."""
    nft = shutil.which("nft", path=IP_COMMAND_PATH)
    if nft is None:
        return "", ""
    if not is_root():
        return "", "only root may list them"
    with anyio.move_on_after(READ_TIMEOUT_S):
        done = await anyio.run_process(
            [nft, *LIST_RULES], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
        )
        if done.returncode == 0:
            return done.stdout.decode("utf-8", "replace"), ""
        return "", "nft did not list them"
    return "", f"nft did not answer within {READ_TIMEOUT_S:g} s"


async def copy_rules(source: Box, copied: Box, hosts: int) -> tuple[str, ...]:
    """Those of each host of a box. Returns what is left out."""
    found: list[str] = []
    for host in range(hosts):
        listed = await source.run_nft(*LIST_RULES, host=host)
        if listed.code == 0:
            found += await load_rules(copied, listed.output, host=host)
    return tuple(found)


async def load_rules(copied: Box, rules: str, *, host: int = 0) -> tuple[str, ...]:
    """Returns what is left out, in words."""
    if not rules.strip():
        return ()
    lines, lost, why = rules.split("\n"), 0, ""
    try:
        for _ in range(MAX_TRIES):
            text = "\n".join(lines).encode()
            ran = await copied.run_nft("-f", "-", stdin=text, host=host)
            if ran.code == 0:
                return (f"{WHAT}: {lost} that cannot be loaded there",) if lost else ()
            why = ran.output.strip().partition("\n")[0]
            bad = {int(each) - 1 for each in _BAD_LINE.findall(ran.output)}
            if not bad or not all(lines[each].startswith("\t\t") for each in bad):
                break
            lost += len(bad)
            for each in bad:
                lines[each] = ""
    except EnvironmentFailed as error:
        why = str(error)
    return (f"{WHAT}: {why}",)
