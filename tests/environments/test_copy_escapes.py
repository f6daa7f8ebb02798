"""The attempts to get out of the sandbox, made in a copy of this machine.

A copy shows the files of the machine, and in it everything may be changed: what an attempt prints
about that is no escape. What changes outside, what answers outside and what goes beyond the limits
is one, for every attempt.
"""

import json
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from escapes.driver import ATTEMPTS
from escapes.ordinary import UID

from hermes.environments.sandboxing import support

DRIVER = Path(__file__).parent / "escapes" / "driver.py"
USERS = ["root", "user"] if os.getuid() == 0 else ["user"]
ALLOWED_IN_A_COPY = {
    "shadow": "it is shown without the passwords",
    "listing-of-the-home": "names of files are shown",
    "move-in": "it is a file that the caller may read",
    "exchange-names": "it is a file that the caller may read",
    "write-to-etc": "it is written to the copy",
    "write-to-usr": "it is written to the copy",
    "write-to-var": "it is written to the copy",
    "write-to-the-interpreter": "it is written to the copy",
    "tcp6": "the copy has a network with a loopback interface only",
    "netlink": "services look up addresses with it",
    "become-root": "services change to their users",
    "capabilities": "of its user namespace: services need them",
    "capabilities-to-gain": "of its user namespace: services need them",
    "chroot": "services use it",
    "large-file": "the disk of the copy is limited as a whole",
    "large-hollow-file": "the disk of the copy is limited as a whole",
    "many-open-files": "services set their own limit",
    "much-cpu": "the time of a copy is limited, not its processor time",
    "setuid-program": "it has the rights of user 0 of the copy only",
}
SPOKEN = ("it says so", "it printed a secret")

pytestmark = pytest.mark.skipif(
    bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())
)


@pytest.fixture(scope="module")
def outcomes() -> dict[str, dict[str, list[str]]]:
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(USERS, pool.map(attempted, USERS), strict=True))


def attempted(who: str) -> dict[str, list[str]]:
    # Not below /tmp, which is empty in a copy: there nothing could be reached.
    folder = Path(tempfile.mkdtemp(prefix="hermes-escapes-", dir="/var/tmp"))
    try:
        (folder / "tools").mkdir()
        shutil.copy("/usr/bin/id", folder / "tools/id")
        if os.getuid() == 0:
            (folder / "tools/id").chmod(0o4755)
            (folder / "tools").chmod(0o755)
            owner = UID if who == "user" else 0
            os.chown(folder, owner, owner)
        done = subprocess.run(
            [sys.executable, str(DRIVER), str(folder), who, "copy"],
            env={"PATH": os.environ["PATH"], "HERMES_SECRET": secrets.token_hex(16)},
            capture_output=True,
            timeout=240,
            check=False,
        )
        assert done.returncode == 0, done.stderr.decode()
        found: dict[str, list[str]] = json.loads(done.stdout)
        return found
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("attempt", [*(each.name for each in ATTEMPTS), "left-on-the-machine"])
@pytest.mark.parametrize("who", USERS)
def test_nothing_gets_out_of_a_copy(
    outcomes: dict[str, dict[str, list[str]]], who: str, attempt: str
) -> None:
    found = outcomes[who][attempt]
    if attempt in ALLOWED_IN_A_COPY:
        found = [each for each in found if not each.startswith(SPOKEN)]
    assert found == []
