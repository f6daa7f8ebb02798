"""A copy of this machine begins with the rules of its packet filter, and cannot change them."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from hermes.environments.sandboxing.host_access import is_root

pytestmark = pytest.mark.skipif(not is_root() or not shutil.which("nft"), reason="needs root, nft")
RULES = """\
table inet bench {
    set blocked { type ipv4_addr; elements = { 192.0.2.1 } }
    chain input {
        type filter hook input priority 0;
        tcp dport 6379 drop
        ip saddr @blocked drop
    }
}
"""
PROGRAM = """\
import anyio
from hermes.environments.copies.machine_copy import copy_machine

async def main():
    copy = await copy_machine()
    try:
        print(copy.left_out)
        print((await copy.run_nft("list", "ruleset")).output)
        print((await copy.run("nft flush ruleset")).code)
        print((await copy.run_nft("flush", "ruleset")).code)
    finally:
        await copy.close()

anyio.run(main)
"""
SCRIPT = f"""\
nft -f - <<'END'
{RULES}
END
nft list ruleset > "$1/before"
"$2" -c '{PROGRAM}' || exit
nft list ruleset > "$1/after"
"""


def test_a_copy_has_the_rules_of_the_host_and_never_touches_them(tmp_path: Path) -> None:
    command = ["unshare", "-n", "sh", "-c", SCRIPT, "sh", str(tmp_path), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "CannotCopyError" in done.stderr:
        pytest.skip(done.stderr.splitlines()[-1])
    assert done.returncode == 0, done.stderr
    first, *rules, flushed_inside, flushed = done.stdout.splitlines()
    assert "packet filter" not in first
    text = "\n".join(rules)
    assert "tcp dport 6379 drop" in text
    assert "192.0.2.1" in text
    assert int(flushed_inside) != 0
    assert int(flushed) == 0
    before, after = ((tmp_path / each).read_text() for each in ("before", "after"))
    assert "6379" in before
    assert before == after
