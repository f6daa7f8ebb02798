"""`hermes web` as a person uses it: a link, the sessions that it opened, and their end."""

import json
import os
import re
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import anyio
import httpx2 as httpx
from hermes_command import Hermes

from hermes.core.events import Event
from hermes.core.events.access import ACCESS_RUN, WebSessionStarted
from hermes.core.events.incidents import IncidentClosed, IncidentOpened
from hermes.memory.store import open_journal
from hermes.settings.load import load
from hermes.web.browser_checks import SESSION_COOKIE
from hermes.web.sessions import SESSION_VALIDITY
from hermes.web.tokens import token_digest


def record(home: Path, *events: Event) -> None:
    async def append() -> None:
        async with open_journal(load(home=home, variables={}).store) as journal:
            await journal.append(*events)

    anyio.run(append)


def started(session: str, person: str) -> WebSessionStarted:
    now = datetime.now(UTC)
    return WebSessionStarted(
        run=ACCESS_RUN,
        session=session,
        login="login-1",
        digest=token_digest(session),
        person=person,
        expires_at=now + SESSION_VALIDITY,
        browser="Firefox",
    )


def test_a_link_is_printed_and_only_its_digest_is_kept(hermes: Hermes) -> None:
    done = hermes("web", "login", "--as", "alice")
    assert done.returncode == 0, done.stderr
    code = re.fullmatch(r"http://127\.0\.0\.1:8080/login\?code=([\w-]{40,})\n", done.stdout)
    assert code is not None, done.stdout
    assert "as alice" in done.stderr
    assert code[1].encode() not in (hermes.home / "journal.db").read_bytes()
    made = json.loads(hermes("web", "login", "--as", "bob", "--json").stdout)
    assert made["person"] == "bob"


def test_sessions_are_listed_and_ended(hermes: Hermes) -> None:
    events = [started("session-aa11", "alice"), started("session-bb22", "bob")]
    record(hermes.home, *events)
    listed = json.loads(hermes("web", "sessions", "--json").stdout)
    assert [(each["id"], each["state"]) for each in listed] == [
        ("session-aa11", "valid"),
        ("session-bb22", "valid"),
    ]
    assert "Firefox" in hermes("web").stdout
    assert json.loads(hermes("web", "logout", "aa11", "--json").stdout)[0]["state"] == "ended"
    assert hermes("web", "logout", "aa11").returncode == 1
    assert hermes("web", "logout").returncode == 2
    assert hermes("web", "logout", "--person", "bob").returncode == 0
    assert json.loads(hermes("web", "sessions", "--json").stdout) == []
    everything = json.loads(hermes("web", "sessions", "--all", "--json").stdout)
    assert [each["state"] for each in everything] == ["ended", "ended"]


def test_without_a_dashboard_there_is_no_link(hermes: Hermes) -> None:
    hermes("config", "set", "web.dashboard", "false")
    done = hermes("web", "login")
    assert done.returncode == 3
    assert "web.dashboard" in done.stderr


def test_the_home_of_a_demo_is_opened_in_the_dashboard(tmp_path: Path) -> None:
    home = tmp_path / "demo"
    opened = IncidentOpened(run="inc-1", incident="inc-1", title="web is down", severity="P1")
    record(home, opened, IncidentClosed(run="inc-1", incident="inc-1", outcome="resolved"))
    command = [sys.executable, "-m", "hermes.cli", "demo", "--keep", str(home), "--open"]
    variables = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "NO_COLOR": "1"}
    with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        link = next(line for line in running.stdout if "/login?code=" in line).strip()
        address, _, code = link.partition("/login?code=")
        with httpx.Client(base_url=address, headers={"origin": address}, timeout=60) as client:
            done = client.post("/login", data={"code": code})
            cookie = done.headers["set-cookie"].partition(";")[0]
            assert cookie.startswith(SESSION_COOKIE)
            assert "web is down" in client.get("/incidents", headers={"cookie": cookie}).text
        running.send_signal(signal.SIGINT)
        assert running.wait(60) == 0
