"""Sockets and lock files of services in folders where everybody may write."""

import socket
from pathlib import Path

import pytest
from reading import HOME, cases, effects

from hermes.policy.command_analysis import analyse_command

HELD = r"""
rm /tmp/.s.PGSQL.5499
mv /tmp/.s.PGSQL.5499 /tmp/hermes-q
mv /tmp/x /tmp/.s.PGSQL.5499
mv -t /tmp/q /tmp/.s.PGSQL.5499
chmod 777 /tmp/.s.PGSQL.5499
chown nobody /tmp/.s.PGSQL.5499
ln -sf /tmp/x /tmp/.s.PGSQL.5499
cp x /tmp/.s.PGSQL.5499.lock
echo x > /tmp/.s.PGSQL.5499.lock
: > /tmp/.s.PGSQL.5499.lock
echo x >> /tmp/mysql.sock.lock
truncate -s 0 /tmp/.s.PGSQL.5499.lock
dd if=x of=/tmp/.X0-lock
echo x | tee /tmp/.X0-lock
mv /tmp/supervisor.sock /tmp/q
rm -rf /tmp/tmux-0
mv /tmp/tmux-1000 /tmp/q
chmod 000 /tmp/tmux-0
rm -rf /tmp/systemd-private-x
rm -rf /var/tmp/systemd-private-ab12-nginx.service-x
mv /tmp/systemd-private-x/tmp /tmp/q
rm -rf /tmp/.X11-unix
mv /tmp/.X11-unix /tmp/q
chmod 700 /tmp/.ICE-unix
mv /tmp/ssh-abcdefghij /tmp/q
rm -rf /tmp/ssh-abcdefghijkl
rm -rf /tmp/tm*
rm -rf /tmp/.*
mv /tmp/systemd-* /tmp/q/
"""
PLAIN = r"""
rm /tmp/x.log
rm /tmp/*.log
rm -rf /tmp/build-*
mv /tmp/x /tmp/y
chmod 600 /tmp/x
echo x > /tmp/x
ln -s /tmp/x /tmp/y
mkdir -p /tmp/ssh-test
cp x /tmp/
curl -s --unix-socket /tmp/app.sock http://localhost/health
ls -la /tmp/.s.PGSQL.5499 /tmp/tmux-0
"""


@pytest.mark.parametrize("command", cases(HELD))
def test_a_change_of_what_services_listen_on_is_a_change_of_the_service(command: str) -> None:
    assert "service-change" in effects(command)


@pytest.mark.parametrize("command", cases(PLAIN))
def test_other_temporary_files_are_just_files(command: str) -> None:
    assert "service-change" not in effects(command)


@pytest.mark.parametrize("command", ["rm -r {0}", "mv {0} {0}2", "chmod 0 {0}", "mv {0}/s {0}/t"])
def test_a_socket_of_any_name_is_found_where_it_is(command: str, tmp_path: Path) -> None:
    folder = tmp_path / "app"
    folder.mkdir()
    with socket.socket(socket.AF_UNIX) as service:
        service.bind(str(folder / "s"))
        found = analyse_command(command.format(folder), cwd="/srv/app", home=HOME, lookup=str)
        assert "service-change" in found.effects
    (folder / "s").unlink()
    found = analyse_command(command.format(folder), cwd="/srv/app", home=HOME, lookup=str)
    assert "service-change" not in found.effects
