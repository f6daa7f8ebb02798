"""An init script is used for a daemon only where it started that daemon."""

from pathlib import Path

import anyio
import pytest

from hermes.skills.supervisors.units import HostUnit, PlainDaemon, list_units

pytestmark = pytest.mark.anyio
INIT_SCRIPT = """\
#!/bin/sh
NAME=redis-server
PIDFILE=/run/redis/redis-server.pid
start-stop-daemon --start --pidfile $PIDFILE --exec /usr/bin/redis-server -- /etc/redis/redis.conf
"""


async def list_unit(
    folder: Path,
    pid_file: str,
    script: str = INIT_SCRIPT,
    *arguments: str,
) -> HostUnit:
    """The unit of a redis that has ended, on a host with the init script of its package."""
    scripts = folder / "init.d"
    scripts.mkdir()
    (scripts / "redis-server").write_text(script)
    (scripts / "redis-server").chmod(0o755)

    async def run(text: str) -> str:
        for path in ("/etc/init.d", "/run/systemd/system", "/run/openrc", "/var/log"):
            text = text.replace(path, str(folder / Path(path).name))
        done = await anyio.run_process(["bash", "-c", text], check=False)
        # The supervisors of the machine that runs the test are not those of the host.
        return done.stdout.decode() if "redis-title" in text else ""

    daemon = PlainDaemon(
        name="redis-server",
        command=("/usr/bin/redis-server", *(arguments or ("/etc/redis/redis.conf",))),
        title="redis-title 127.0.0.1:6379",
        user="redis",
        folder="/var/lib/redis-shop",
        pid_file=pid_file,
    )
    (unit,) = (await list_units(run, [daemon], service="redis-server")).units
    return unit


@pytest.mark.parametrize("pid_file", ["/run/redis/shop.pid", "/srv/shop/redis.pid", ""])
async def test_a_daemon_with_a_pid_file_of_its_own_is_not_that_of_the_init_script(
    tmp_path: Path, pid_file: str
) -> None:
    unit = await list_unit(tmp_path, pid_file)
    assert (unit.name, unit.kind, unit.state) == ("redis-server", "daemon", "failed")


async def test_the_init_script_that_is_named_like_the_pid_file_owns_the_daemon(
    tmp_path: Path,
) -> None:
    unit = await list_unit(tmp_path, "/run/redis/redis-server.pid")
    assert (unit.name, unit.kind) == ("redis-server", "sysvinit")


async def test_the_init_script_that_names_the_pid_file_owns_the_daemon(tmp_path: Path) -> None:
    script = INIT_SCRIPT.replace("redis-server.pid", "6379.pid")
    unit = await list_unit(tmp_path, "/run/redis/6379.pid", script)
    assert (unit.name, unit.kind) == ("redis-server", "sysvinit")


@pytest.mark.parametrize(
    ("arguments", "kind"),
    [
        (("/etc/redis/shop.conf",), "daemon"),
        (("--port", "6380", "-c", "/srv/shop/redis.conf"), "daemon"),
        (("/etc/redis-server/main.conf",), "sysvinit"),
        (("--daemonize", "yes"), "sysvinit"),
    ],
)
async def test_an_init_script_with_other_settings_is_not_that_of_the_daemon(
    tmp_path: Path, arguments: tuple[str, ...], kind: str
) -> None:
    pid_file = "/run/redis/redis-server.pid"
    assert (await list_unit(tmp_path, pid_file, INIT_SCRIPT, *arguments)).kind == kind


@pytest.mark.parametrize(
    ("pid_file", "unit"),
    [("/run/mysqld/mysqld.pid", ("mariadb", "sysvinit")), ("/run/b.pid", ("mariadbd", "daemon"))],
)
async def test_the_init_script_of_a_daemon_may_lack_its_last_letter(
    tmp_path: Path, pid_file: str, unit: tuple[str, str]
) -> None:
    (tmp_path / "init.d").mkdir()
    (tmp_path / "mysql/mariadb.conf.d").mkdir(parents=True)
    script = tmp_path / "init.d/mariadb"
    script.write_text("test -x /usr/sbin/mariadbd || exit 0\nmysqld_safe &\n")
    script.chmod(0o755)
    settings = "#pid-file = /run/b.pid\npid-file = /run/mysqld/mysqld.pid\n"
    (tmp_path / "mysql/mariadb.conf.d/server.cnf").write_text(settings)

    async def run(text: str) -> str:
        for path in ("/etc/init.d", "/etc/mysql", "/run/systemd/system", "/run/openrc"):
            text = text.replace(path, str(tmp_path / Path(path).name))
        done = await anyio.run_process(["bash", "-c", text], check=False)
        return done.stdout.decode() if "mariadbd --user=mysql" in text else ""

    command = ("/usr/sbin/mariadbd", "--user=mysql")
    daemon = PlainDaemon(name="mariadbd", command=command, user="mysql", pid_file=pid_file)
    (found,) = (await list_units(run, [daemon], service="mariadbd")).find("mariadbd")
    assert (found.name, found.kind) == unit
