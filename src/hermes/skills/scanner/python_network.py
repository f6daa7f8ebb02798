"""A call in Python that goes out: to which host, and what of the machine goes along."""

import ast
import re

from hermes.skills.scanner.deed import Deed, host_in
from hermes.skills.scanner.python_names import UNKNOWN, Names
from hermes.skills.scanner.python_words import NETWORK, PAYLOAD, SENDS


def network_deed(
    file: str, names: Names, node: ast.Call, name: str, *, reads: bool = True
) -> Deed | None:
    """None when the call stays here, as far as reading tells. `reads`: there is something of the
    machine that an address could carry."""
    last = name.rpartition(".")[2]
    text = _address(names, node, last)
    if not NETWORK.match(name) and not host_in(text):
        return None
    bare = text.split(" ")[0]
    host = host_in(text) or (bare if re.fullmatch(r"[\w.?-]+\.[\w.?-]+", bare) else "")
    return Deed(
        kind="network",
        file=file,
        line=node.lineno,
        detail=ast.unparse(node)[:80],
        host=host,
        sends=last in SENDS
        or _carries(node, last)
        or (reads and UNKNOWN in text.split("//", 1)[-1]),
    )


def _address(names: Names, node: ast.Call, last: str) -> str:
    named = next((each.value for each in node.keywords if each.arg in ("url", "host")), None)
    at = 1 if last in ("request", "stream") and len(node.args) > 1 else 0
    where = named if named is not None else (node.args[at] if node.args else None)
    return names.path(where) if where is not None else ""


def _carries(node: ast.Call, last: str) -> bool:
    if last in ("urlopen", "Request") and len(node.args) > 1:
        return True
    return any(each.arg in PAYLOAD for each in node.keywords)
