"""A port without a listener is corrected where it is an address, and nothing else is changed."""

import sys

import pytest
from supervisor_host import SupervisorHost, needs_namespaces, needs_supervisord
from test_playbooks_under_supervisors import matches, runner_on

from hermes.core.incident import AlertFacts

pytestmark = [pytest.mark.anyio, needs_namespaces, needs_supervisord]
NAME = "upstream-port"
ALERT = "nginx: proxy error, connection refused while connecting to upstream"
SERVER = """
import socket, time
server = socket.create_server(("127.0.0.1", 5432))
time.sleep(1000)
"""
CLIENT = """
import sys, time
print("2026-11-19 04:00:57 ERROR " + sys.argv[2], flush=True)
time.sleep(1000)
"""
PROGRAMS = f"""
[program:ledger]
command={sys.executable} /srv/ledger/57/ledger.py
[program:nginx]
command={sys.executable} /srv/proxy/proxy.py --config=/srv/proxy/proxy.conf "%s"
redirect_stderr=true
stdout_logfile=/var/log/nginx.log
"""


def start_proxy(host: SupervisorHost, logged: str, settings: str) -> None:
    host.run("mkdir -p /srv/ledger/57 /srv/proxy")
    host.path("/srv/ledger/57/ledger.py").write_text(SERVER)
    host.path("/srv/proxy/proxy.py").write_text(CLIENT)
    host.path("/srv/proxy/proxy.conf").write_text(settings)
    host.start_supervisord(PROGRAMS % logged)
    running = "$(supervisorctl status | grep -c RUNNING)"
    host.run(f'until [ "{running}" = 2 ] && [ -s /var/log/nginx.log ]; do sleep 0.1; done')


async def test_an_address_with_a_wrong_port_gets_the_port_of_its_service() -> None:
    with SupervisorHost() as host:
        start_proxy(host, "connect to ledger:5433 refused", "ledger_url = http://ledger:5433/57/\n")
        runner = runner_on(host, NAME)
        result = await runner.run(AlertFacts(title=ALERT, text=""))
        assert (result.outcome, result.detail) == ("applied", "")
        text = host.path("/srv/proxy/proxy.conf").read_text()
        assert text == "ledger_url = http://ledger:5432/57/\n"
        assert (await runner.undo(result)).outcome == "undone"
        text = host.path("/srv/proxy/proxy.conf").read_text()
        assert text == "ledger_url = http://ledger:5433/57/\n"


@pytest.mark.parametrize("logged", ["connection to ledger refused", "T04:00:57 connect refused"])
async def test_times_in_a_log_and_versions_in_a_path_are_no_ports(logged: str) -> None:
    with SupervisorHost() as host:
        settings = "ledger_url = http://ledger:5432/\nledger_home = /srv/ledger/57/data\n"
        start_proxy(host, logged, settings)
        assert not await matches(host, NAME, ALERT)
