"""Finds who holds the ports of a service that does not run: no copy has that process.

A service that cannot start because of another process starts well in a copy, which says nothing
about the host.
"""

import re
from collections.abc import Iterable

from hermes.declared.collectors.readers import RunCommand

MAX_PORTS = 6
_PORT_IN_ADDRESS = re.compile(r"(?:^|[\w\]]:)(\d{2,5})(?=/|$)")
_SCRIPT = r"""
links=$(ls -l /proc/[0-9]*/fd 2>/dev/null | awk '/^.proc.[0-9]/ { split($0, w, "/"); p = w[3] }
  match($0, /socket:.[0-9]+/) { print substr($0, RSTART + 8, RLENGTH - 8), p }')
for port in PORTS; do
  hex=$(printf ':%04X' "$port")
  pid=$({ cat /proc/net/tcp /proc/net/tcp6 2>/dev/null | awk -v h="$hex" \
      '$4 == "0A" && substr($2, length($2) - 4) == h { print $10 }'
      echo --; printf '%s\n' "$links"; } |
    awk '$1 == "--" { rest = 1; next } !rest { own[$1]; next } $1 in own { print $2 }' |
    sort -n | head -n 1)
  [ -z "$pid" ] || echo "$port $pid $(tr '\0\n' '  ' < /proc/"$pid"/cmdline | cut -c -80)"
done
"""


def ports_of_addresses(addresses: Iterable[str]) -> list[int]:
    """Of `127.0.0.1:8000`, `http://127.0.0.1:8000/health` and `8000`."""
    found = (_PORT_IN_ADDRESS.search(each.partition("//")[2] or each) for each in addresses)
    numbers = (int(each[1]) for each in found if each is not None)
    return list(dict.fromkeys(number for number in numbers if number < 65_536))[:MAX_PORTS]


async def find_port_holders(run: RunCommand, ports: Iterable[int]) -> list[str]:
    """In words."""
    wanted = " ".join(map(str, ports))
    if not wanted:
        return []
    _, output = await run(_SCRIPT.replace("PORTS", wanted), b"")
    lines = [line.split(" ", 2) for line in output.decode("utf-8", "replace").splitlines()]
    return [
        f"port {each[0]} is held by pid {each[1]} ({each[2].strip()})"
        for each in lines
        if len(each) == 3 and each[0].isdigit() and each[1].isdigit()
    ]
