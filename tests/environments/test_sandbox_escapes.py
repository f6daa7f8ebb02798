"""Every attempt to get out of the sandbox fails, as root and as an ordinary user.

The attempts are in `escapes/`. Each is made with each kind of isolation, and, where that is safe,
without any: there it has to succeed, or it would prove nothing.
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

from hermes.environments.sandboxing.sandbox_resources import find_missing_support

DRIVER = Path(__file__).parent / "escapes" / "driver.py"
USERS = ["root", "user"] if os.getuid() == 0 else ["user"]
ISOLATION_KINDS = ["namespaces", "bubblewrap", "landlock"]


Outcomes = dict[tuple[str, str], dict[str, list[str]]]


@pytest.fixture(scope="module")
def outcomes() -> Outcomes:
    """What got away, by user, isolation and attempt. Most of the time is waiting for limits."""
    kinds = [
        *(isolation for isolation in ISOLATION_KINDS if not find_missing_support(isolation)),
        "none",
    ]
    pairs = [(who, isolation) for who in USERS for isolation in kinds]
    with ThreadPoolExecutor(3) as pool:
        return dict(zip(pairs, pool.map(lambda pair: attempted(*pair), pairs), strict=True))


def attempted(who: str, isolation: str) -> dict[str, list[str]]:
    folder = Path(tempfile.mkdtemp(prefix="hermes-escapes-"))
    try:
        (folder / "tools").mkdir()
        shutil.copy("/usr/bin/id", folder / "tools/id")
        if os.getuid() == 0:
            (folder / "tools/id").chmod(0o4755)
            (folder / "tools").chmod(0o755)
            owner = UID if who == "user" else 0
            os.chown(folder, owner, owner)
        return _made(folder, who, isolation)
    finally:
        shutil.rmtree(folder)


def _made(folder: Path, who: str, isolation: str) -> dict[str, list[str]]:
    done = subprocess.run(
        [sys.executable, str(DRIVER), str(folder), who, isolation],
        env={"PATH": os.environ["PATH"], "HERMES_SECRET": secrets.token_hex(16)},
        capture_output=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stderr.decode()
    found: dict[str, list[str]] = json.loads(done.stdout)
    return found


def test_there_are_at_least_forty_attempts_and_most_have_a_control() -> None:
    assert len({attempt.name for attempt in ATTEMPTS}) == len(ATTEMPTS) >= 40
    assert sum(attempt.control != "nobody" for attempt in ATTEMPTS) >= 40


@pytest.mark.parametrize("attempt", [attempt.name for attempt in ATTEMPTS])
@pytest.mark.parametrize("isolation", ISOLATION_KINDS)
@pytest.mark.parametrize("who", USERS)
def test_nothing_gets_away(outcomes: Outcomes, who: str, isolation: str, attempt: str) -> None:
    if find_missing_support(isolation):
        pytest.skip(find_missing_support(isolation))
    assert outcomes[who, isolation][attempt] == []


@pytest.mark.parametrize("attempt", [a.name for a in ATTEMPTS if a.control != "nobody"])
def test_without_walls_the_attempt_succeeds(outcomes: Outcomes, attempt: str) -> None:
    for who in USERS:
        assert outcomes[who, "none"].get(attempt, ["not safe as this user"]) != [], who
