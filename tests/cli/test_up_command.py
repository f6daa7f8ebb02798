"""`hermes up` as a process: the watch and the API answer on one port, and both end with it."""

import json
import signal
import subprocess
import urllib.error
import urllib.request
from itertools import takewhile

from hermes_command import Hermes

PROBES = """\
probes:
  - name: folder
    kind: command
    what: test -d /
"""
LISTENING = "alerts are received at "
NO_CHANNEL = "no chat channel is configured: hermes channels list shows what is needed\n"


def fetch(address: str, token: str = "") -> tuple[int, bytes]:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers)) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def test_watch_and_api_run_in_one_process_until_it_is_ended(hermes: Hermes) -> None:
    hermes.home.mkdir()
    (hermes.home / "probes.yaml").write_text(PROBES)
    token = json.loads(hermes("token", "add", "--as", "alice", "--json").stdout)["token"]
    process = subprocess.Popen(
        [*hermes.command, "--set", "web.port=0", "up", "--model", "none"],
        env=hermes.env,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        lines = list(takewhile(lambda line: line != NO_CHANNEL, process.stderr))
        (address,) = [
            line.removeprefix(LISTENING).strip().removesuffix("/alerts")
            for line in lines
            if line.startswith(LISTENING)
        ]
        assert fetch(f"{address}/healthz")[0] == 200
        assert fetch(f"{address}/api/incidents")[0] == 401
        status, body = fetch(f"{address}/api/incidents", token)
        assert (status, json.loads(body)) == (200, {"incidents": []})
        process.send_signal(signal.SIGTERM)
        process.wait(timeout=60)
    assert process.returncode == 0
