"""`hermes service` on a copy of this host's /etc and /var, in a mount namespace."""

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import anyio
import pytest
from hermes_command import Hermes

from hermes.app.service.manager_notification import ManagerNotification
from hermes.cli import exit_codes

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root installs a service")
LAYER = """
layer() {{ mkdir -p {top}/$2/upper {top}/$2/work
  mount -t overlay o -o "lowerdir=$1,upperdir={top}/$2/upper,workdir={top}/$2/work" "$1"; }}
set -e
mount --make-rprivate /
mount -t tmpfs -o mode=755 t {top}
layer /etc etc; layer /var var
number=0; for folder in {closed}; do
  number=$((number + 1)); layer $folder closed$number; chmod 755 $folder; done
mkdir -p /etc/supervisor/conf.d
hermes() {{ {command} "$@"; }}
set +e
"""


def on_a_copy(hermes: Hermes, script: str) -> list[str]:
    """What the script printed on a host whose /etc and /var are copies."""
    top = hermes.home.parent / "layers"
    top.mkdir()
    places = {Path(sys.executable), Path(sys.base_prefix), Path(hermes.env["PYTHONPATH"])}
    parents = {each for place in places for p in (place, place.resolve()) for each in p.parents}
    closed = sorted(str(each) for each in parents if not each.stat().st_mode & stat.S_IXOTH)
    start = LAYER.format(top=top, closed=" ".join(closed), command=" ".join(hermes.command))
    done = subprocess.run(
        ["unshare", "-m", "bash", "-c", start + script],
        env=hermes.env,
        capture_output=True,
        text=True,
        timeout=600,
    )
    return (done.stdout + done.stderr).splitlines()


@pytest.mark.parametrize("kind", ["systemd", "supervisord", "openrc"])
def test_the_text_to_paste_needs_no_root_and_changes_nothing(hermes: Hermes, kind: str) -> None:
    done = hermes("service", "install", "--kind", kind, "--print", "--memory", "300")
    assert done.returncode == 0, done.stderr
    assert "hermes up" in done.stdout or 'command_args="up"' in done.stdout
    file = json.loads(hermes("service", "install", "--kind", kind, "--print", "--json").stdout)
    assert not Path(file["path"]).exists()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(hermes: Hermes, tmp_path: Path) -> None:
    unit = tmp_path / "hermes.service"
    unit.write_text(hermes("service", "install", "--kind", "systemd", "--print").stdout)
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    unit.write_text(unit.read_text().replace("Type=notify", "Type=nonsense"))
    done = subprocess.run(["systemd-analyze", "verify", unit], capture_output=True, text=True)
    assert done.stderr


def test_what_was_never_installed_is_said_so(hermes: Hermes) -> None:
    done = hermes("service", "status")
    assert done.returncode == exit_codes.FAILED
    assert "hermes service install" in done.stderr
    assert json.loads(hermes("service", "--json").stdout)["installed"] is False


@needs_root
def test_an_installation_can_be_repeated_and_removes_only_what_it_made(hermes: Hermes) -> None:
    hermes("config", "set", "agent.max_depth", "2")
    hermes("config", "set", "FAL_KEY", "x")
    said = on_a_copy(
        hermes,
        """
find /etc | sort > /tmp/before-$$
hermes service install --kind supervisord --mode observe --memory 300 --no-start; echo code $?
stat -c '%A %U %n' /var/lib/hermes /var/lib/hermes/.env /var/log/hermes
grep -c '' /etc/supervisor/conf.d/hermes.conf; id -nG hermes
cat /var/lib/hermes/config.yaml
hermes service install --no-start
grep -o '"memory_mib":[0-9]*' /etc/hermes/service.json
hermes service install --kind openrc --no-start; echo code $?
hermes service status --json | grep installed
hermes service uninstall; echo code $?
ls -A /var/lib/hermes | tr '\\n' ' '; echo
find /etc | sort | diff /tmp/before-$$ - | grep -vE 'passwd|group|shadow|subuid|subgid|.pwd.lock'
rm /tmp/before-$$
hermes service uninstall; echo code $?
""",
    )
    text = "\n".join(said)
    assert "user hermes" in said and "mode observe" in said
    assert "drwx------ hermes /var/lib/hermes" in said
    assert "-rw------- hermes /var/lib/hermes/.env" in said
    assert "drwxr-x--- hermes /var/log/hermes" in said
    assert "max_depth: 2" in text and "mode: observe" in text
    assert "Nothing to do: it is installed." in said and '"memory_mib":300' in said
    assert "it is installed for supervisord" in text
    assert [line for line in said if line.startswith("code")] == [
        "code 0", "code 3", "code 0", "code 1",
    ]  # fmt: skip
    assert any(".env" in line and "config.yaml" in line for line in said)
    assert not [line for line in said if line.startswith(("<", ">"))], text
    assert "the service is not installed" in text


@needs_root
def test_the_home_goes_when_asked_and_an_edited_file_is_kept(hermes: Hermes) -> None:
    said = on_a_copy(
        hermes,
        """
hermes service install --kind supervisord --no-start >/dev/null
echo '; mine' >> /etc/supervisor/conf.d/hermes.conf
echo 'on call: 3 probes' > /var/log/hermes/watch.log
hermes service logs -n 1; hermes service logs --json | tr -d '\n '; echo
hermes service uninstall --remove-home --json | tr -d '\n '; echo
ls -d /var/lib/hermes; ls /etc/supervisor/conf.d; id hermes
""",
    )
    text = "\n".join(said)
    assert "hermes.conf.edited" in said
    assert "on call: 3 probes" in said
    assert '{"lines":["oncall:3probes"]}' in said
    removed = next(line for line in said if line.startswith('{"removed":'))
    assert "folder/var/lib/hermes" in removed and "userhermes" in removed
    assert "/var/lib/hermes" not in said
    assert "no such user" in text


@needs_root
def test_a_file_of_somebody_else_and_a_missing_manager_stop_it(hermes: Hermes) -> None:
    said = on_a_copy(
        hermes,
        """
echo mine > /etc/supervisor/conf.d/hermes.conf
hermes service install --kind supervisord --no-start; echo code $?
cat /etc/supervisor/conf.d/hermes.conf; rm -r /etc/supervisor
hermes service install --kind supervisord --no-start; echo code $?
id hermes
""",
    )
    text = "\n".join(said)
    assert "is not ours" in text and "mine" in said
    assert [line for line in said if line.startswith("code")] == ["code 3", "code 5"]
    assert "no such user" in text


def test_the_watch_says_that_it_is_ready_and_alive(hermes: Hermes, tmp_path: Path) -> None:
    hermes.home.mkdir()
    (hermes.home / "probes.yaml").write_text("probes: []\n")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        manager.settimeout(60)
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "1000000"}
        command = [*hermes.command, "watch", "--model", "none", "--no-listen"]
        child = subprocess.Popen(
            command, env={**hermes.env, **variables}, stdout=subprocess.DEVNULL
        )
        try:
            heard = [manager.recv(100)]
            while heard.count(b"WATCHDOG=1") < 2:
                heard.append(manager.recv(100))
            child.terminate()
            while b"STOPPING=1" not in heard:
                heard.append(manager.recv(100))
            assert child.wait(timeout=60) == 0
        finally:
            child.kill()
            child.wait()
    assert heard[0] == b"READY=1"


@pytest.mark.parametrize(("age_s", "alive"), [(0, True), (120, False)])
def test_a_watch_whose_loop_stands_still_is_not_reported_as_alive(
    tmp_path: Path, age_s: int, alive: bool
) -> None:
    async def notify(notification: ManagerNotification) -> None:
        with anyio.move_on_after(0.3):
            await notification.run(lambda: datetime.now(UTC) - timedelta(seconds=age_s))

    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(tmp_path / "notify"))
        variables = {"NOTIFY_SOCKET": str(tmp_path / "notify"), "WATCHDOG_USEC": "100000"}
        anyio.run(notify, ManagerNotification(variables))
        manager.setblocking(False)
        assert manager.recv(100) == b"READY=1"
        if alive:
            assert manager.recv(100) == b"WATCHDOG=1"
        else:
            with pytest.raises(BlockingIOError):
                manager.recv(100)
