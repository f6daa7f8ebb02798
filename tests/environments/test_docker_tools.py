"""The bundled tools of docker on a real daemon, through executor and policy."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import real_docker
from real_docker import WITHOUT_BASH, Daemon

from hermes.app.application import Application, open_application
from hermes.core.actions import Action, Approval, Decision
from hermes.core.messages import ToolCall, ToolResult
from hermes.core.run_ids import new_id
from hermes.settings.load import load
from hermes.sre.context import execute_for_run

pytestmark = [pytest.mark.anyio, pytest.mark.daemon]
SECRET_VALUE = "hunter2-not-for-anybody"


async def approve(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="ann")


@asynccontextmanager
async def opened(daemon: Daemon, home: Path) -> AsyncIterator[Application]:
    overrides = {"policy.set": "careful", "policy.announce": "0.1", "tools.docker": daemon.address}
    variables = {"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": str(home)}
    loaded = load(home=home, variables=variables, overrides=overrides)
    async with open_application(
        loaded, approver=approve, directory=home, toolsets=("default", "docker")
    ) as application:
        yield application


async def call(application: Application, tool: str, **arguments: Any) -> ToolResult:
    dependencies = application.agent_dependencies
    execute = execute_for_run(dependencies, "docker", dependencies.executor)
    return await execute(ToolCall(new_id("call"), tool, arguments))


async def test_every_tool_works_on_a_real_daemon(tmp_path: Path) -> None:
    daemon = real_docker.daemon()
    made = "echo up; touch /srv/made; exec sleep 600"
    daemon.docker(
        *("run", "--detach", "--name", "tool-shop", "--network", "none", "--init"),
        *("--env", f"PASSWORD={SECRET_VALUE}", "--memory", "32m", WITHOUT_BASH, "sh", "-c", made),
    )
    shop = {"container": "tool-shop"}
    try:
        async with opened(daemon, tmp_path) as application:
            listed = await call(application, "docker_ps")
            assert "tool-shop" in listed.content and listed.status == "ok", listed.content
            inspected = await call(application, "docker_inspect", **shop)
            assert "memory=33554432" in inspected.content and SECRET_VALUE not in inspected.content
            assert "up" in (await call(application, "docker_logs", **shop)).content
            assert "tool-shop" in (await call(application, "docker_stats")).content
            assert "sleep 600" in (await call(application, "docker_top", **shop)).content
            assert "/srv/made" in (await call(application, "docker_diff", **shop)).content
            events = await call(application, "docker_events")
            assert "container start" in events.content and events.status == "ok", events.content
            stopped = await call(application, "docker_stop", **shop)
            assert stopped.status == "ok", stopped.content
            assert "docker_start" in stopped.content or "start tool-shop" in stopped.content
            assert not daemon.containers("name=tool-shop", "status=running")
            for tool in ("docker_start", "docker_restart"):
                done = await call(application, tool, **shop)
                assert done.status == "ok", done.content
                assert daemon.containers("name=tool-shop", "status=running")
            gone = await call(application, "docker_logs", container="not-there")
            assert "No such container: not-there" in gone.content
    finally:
        daemon.docker("rm", "--force", "tool-shop")
