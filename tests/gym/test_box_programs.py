"""systemctl, journalctl and crontab of a host, and the limits of its units."""

import anyio
import pytest

from hermes.environments.boxes.box import Box
from hermes.environments.sandboxing import support
from hermes.gym.episodes.episode import build_host_plan
from hermes.gym.scenario_spec import HostFile, HostSpec
from hermes.gym.services.python_service import service_unit

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(bool(support.no_sandbox_reason()), reason=str(support.no_sandbox_reason())),
]
UNIT_FOLDER = "/etc/systemd/system"


def a_host(*units: HostFile) -> HostSpec:
    return HostSpec(name="web-1", units=units)


def sleeper(name: str, more: str = "") -> HostFile:
    return service_unit(name, "/bin/sleep 1000", more=more)


async def output(box: Box, script: str, code: int = 0) -> str:
    ran = await box.run(script)
    assert ran.code == code, ran.output
    return ran.output


async def wait_until_active(box: Box, unit: str) -> None:
    with anyio.fail_after(120):
        while True:
            if (await box.call_supervisor("show", unit))["said"]["state"] == "active":
                return
            await anyio.sleep(0.02)


@pytest.mark.parametrize(
    ("value", "limits"),
    [("9", "9 9"), ("9:64", "9 64"), ("infinity", "most most"), ("16:infinity", "16 most")],
)
async def test_a_limit_of_open_files_is_the_one_of_the_service_alone(
    value: str, limits: str
) -> None:
    """The supervisor has many files open for its other services."""
    others = [sleeper(f"other-{number}") for number in range(12)]
    async with Box(
        [build_host_plan(a_host(*others, sleeper("tight", f"LimitNOFILE={value}")))]
    ) as (box):
        await wait_until_active(box, "tight")
        shown = await output(
            box,
            "pid=$(systemctl show -p MainPID --value tight); "
            "awk '/open files/ {print $4, $5}' /proc/$pid/limits; ulimit -Hn",
        )
        found, most = shown.splitlines()
        assert found == limits.replace("most", most)


@pytest.mark.parametrize("value", ["many", "64:9", "1:2:3"])
async def test_a_limit_that_cannot_be_read_is_reported_in_the_log(value: str) -> None:
    async with Box([build_host_plan(a_host(sleeper("odd", f"LimitNOFILE={value}")))]) as box:
        await wait_until_active(box, "odd")
        log = await output(box, "journalctl -u odd -o cat -p warning")
        assert log.strip() == (
            f"odd.service: Failed to parse resource value, ignoring: LimitNOFILE={value}"
        )


async def test_show_prints_environment_limits_and_drop_ins() -> None:
    unit = sleeper("app", "Environment=A=1 B=2\nLimitNOFILE=64:128")
    async with Box([build_host_plan(a_host(unit))]) as box:
        drop_in = f"{UNIT_FOLDER}/app.service.d/more.conf"
        await output(
            box,
            f"mkdir -p {UNIT_FOLDER}/app.service.d; "
            f"printf '[Service]\\nEnvironment=C=3\\n' > {drop_in}; systemctl daemon-reload",
        )
        names = "Environment,LimitNOFILE,DropInPaths"
        shown = (await output(box, f"systemctl show -p {names} app")).splitlines()
        assert sorted(shown) == [
            f"DropInPaths={drop_in}",
            "Environment=A=1 B=2 C=3",
            "LimitNOFILE=128",
        ]
        assert (
            await output(
                box, "systemctl show -p MainPID -p LimitNOFILESoft --value app | tail -n 1"
            )
            == "64\n"
        )


async def test_edit_writes_a_drop_in_and_loads_it() -> None:
    async with Box([build_host_plan(a_host(sleeper("app")))]) as box:
        await output(box, "printf '[Service]\\nEnvironment=A=1\\n' | systemctl edit --stdin app")
        assert "A=1" in await output(box, "systemctl show -p Environment app")
        assert "override.conf" in await output(box, "systemctl show -p DropInPaths app")
        await output(box, "EDITOR='sed -i s/A=1/A=2/' systemctl edit app")
        assert "A=2" in await output(box, "systemctl show -p Environment app")
        await output(box, "EDITOR='sed -i s/1000/2000/' systemctl edit --full app")
        assert "2000" in await output(box, f"cat {UNIT_FOLDER}/app.service")
        assert "tty" in await output(box, "systemctl edit app", code=1)
        assert "canceled" in await output(box, "printf '' | systemctl edit --stdin app", code=1)
        assert "No files found" in await output(box, "systemctl edit --stdin nothing", code=1)


async def test_timers_are_listed() -> None:
    async with Box([build_host_plan(a_host())]) as box:
        assert "0 timers listed." in await output(box, "systemctl list-timers --all --no-pager")
        await output(box, f"touch {UNIT_FOLDER}/backup.timer")
        assert "backup.service" in await output(box, "systemctl list-timers")


async def test_crontab_lists_replaces_edits_and_removes_a_table() -> None:
    async with Box([build_host_plan(a_host())]) as box:
        assert "no crontab for root" in await output(box, "crontab -l", code=1)
        await output(box, "echo '*/5 * * * * echo first >> /srv/ran' | crontab -")
        assert "first" in await output(box, "crontab -l")
        assert (await box.call_supervisor("cron", "first"))["codes"] == [0]
        assert await box.read("/srv/ran") == b"first\n"
        wrong = await output(box, "echo '61 * * * * true' | crontab -", code=1)
        assert "bad minute" in wrong
        assert "first" in await output(box, "crontab -l")
        await output(box, "EDITOR='sed -i s/first/second/' crontab -e")
        assert "second" in await output(box, "crontab -l")
        await output(box, "echo '@daily true' > /tmp/t; crontab -u www /tmp/t; crontab -u www -l")
        assert (await box.call_supervisor("cron", "true"))["codes"] == [0]
        await output(box, "crontab -r")
        await output(box, "crontab -l", code=1)
        assert "usage" in await output(box, "crontab -x", code=1)


async def test_the_log_is_filtered_by_priority() -> None:
    loud = service_unit(
        "loud", '/bin/sh -c \'echo plain; echo "<3>broken"; echo "<4>odd"; sleep 1000\''
    )
    async with Box([build_host_plan(a_host(loud))]) as box:
        with anyio.fail_after(120):
            while True:
                if "odd" in (await box.run("journalctl -u loud")).output:
                    break
                await anyio.sleep(0.02)
        log = "journalctl -u loud -o cat -q"
        assert await output(box, f"{log} -p err") == "broken\n"
        assert await output(box, f"{log} -p 4") == "broken\nodd\n"
        assert await output(box, f"{log} --priority=warning..warning") == "odd\n"
        assert "plain" in await output(box, f"{log} -pinfo")
        assert "Unknown log level loudly" in await output(box, f"{log} -p loudly", code=1)


async def test_a_oneshot_unit_is_started_when_its_program_has_ended() -> None:
    slow = service_unit("slow", "/bin/sh -c 'sleep 0.3; echo x >> /srv/done'", more="Type=oneshot")
    wrong = service_unit("wrong", "/bin/false", more="Type=oneshot\nRestart=no")
    async with Box([build_host_plan(a_host(slow, wrong))]) as box:
        await output(
            box, "systemctl restart slow; rm /srv/done; systemctl start slow; cat /srv/done"
        )
        await output(box, "rm /srv/done; systemctl restart slow && cat /srv/done")
        await box.run("rm /srv/done")
        await box.call_supervisor("restart", "slow")
        assert await box.read("/srv/done") == b"x\n"
        await output(box, "systemctl start wrong", code=1)
