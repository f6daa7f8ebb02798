"""Pods by kubectl: how they are asked for, entered, left and lost. Nothing real could be had: the
program is a stand-in with a cluster behind it that refuses what the real ones would refuse.

The contract suite runs on the same stand-in, as `kubernetes-stand-in`.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from stand_ins.places import calls, install, kubernetes, opening, want

from hermes.core.errors import EnvironmentFailed, SettingsError
from hermes.core.plugins import load_plugin
from hermes.environments.kubernetes import open_kubernetes, why_not

pytestmark = pytest.mark.anyio


def asked_for(folder: Path) -> dict[str, Any]:
    pod: dict[str, Any] = json.loads((folder / "stand-in" / "last-pod.json").read_text())
    return pod


def pods(folder: Path) -> list[Path]:
    return list((folder / "stand-in" / "containers").glob("*"))


def somebodys_pod(folder: Path, *containers: str) -> Path:
    install(folder, "kubectl", "stand_in_kubectl")
    pod = folder / "stand-in" / "containers" / "web-1"
    for part in ("work", "tmp"):
        (pod / part).mkdir(parents=True)
    (pod / "names").write_text("\n".join(containers))
    return pod


async def test_a_pod_of_ours_has_no_rights(tmp_path: Path) -> None:
    async with kubernetes(tmp_path, memory_mb=512, cpus=0.5, kubernetes_image="img:1") as place:
        assert place.isolated
        assert place.target == "current context/default/img:1"
    spec = asked_for(tmp_path)["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert spec["restartPolicy"] == "Never"
    assert spec["activeDeadlineSeconds"] == 24 * 3600
    (container,) = spec["containers"]
    assert container["image"] == "img:1"
    assert container["securityContext"]["allowPrivilegeEscalation"] is False
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert container["resources"]["limits"] == {"memory": "512Mi", "cpu": "0.5"}
    assert not {"hostNetwork", "hostPID", "hostIPC"} & spec.keys()
    assert pods(tmp_path) == []


async def test_every_call_says_where(tmp_path: Path) -> None:
    async with kubernetes(tmp_path, kubernetes_namespace="ops") as place:
        await place.run("true")
    first, *others = (each["argv"] for each in calls(tmp_path))
    assert first == ["config", "current-context"]
    for argv in others:
        assert argv[:4] == ["--context", "stand-in", "--namespace", "ops"]


async def test_a_context_that_was_named_is_used_and_must_exist(tmp_path: Path) -> None:
    async with kubernetes(tmp_path, kubernetes_context="other"):
        assert calls(tmp_path)[0]["argv"][:2] == ["--context", "other"]
    with pytest.raises(EnvironmentFailed, match='"gone" does not exist'):
        async with kubernetes(tmp_path, kubernetes_context="gone"):
            pass


async def test_somebodys_pod_is_entered_and_left_as_it_was(tmp_path: Path) -> None:
    pod = somebodys_pod(tmp_path, "app", "sidecar")
    settings = {"kubernetes_pod": "web-1", "kubernetes_container": "sidecar"}
    async with kubernetes(tmp_path, **settings) as place:
        assert not place.isolated
        assert place.target == "current context/default/web-1"
        assert (await place.run("cat > note; echo done", stdin=b"x")).output == "done\n"
    assert sorted(path.name for path in pod.rglob("*")) == ["names", "note", "tmp", "work"]
    verbs = {each["argv"][4] for each in calls(tmp_path)[1:]}
    assert verbs == {"exec"}
    assert "--container" in calls(tmp_path)[-1]["argv"]


async def test_a_pod_or_container_that_is_not_there_is_a_place_that_failed(tmp_path: Path) -> None:
    somebodys_pod(tmp_path, "app")
    with pytest.raises(EnvironmentFailed, match="not found"):
        async with kubernetes(tmp_path, kubernetes_pod="web-2"):
            pass
    with pytest.raises(EnvironmentFailed, match="nope not found"):
        async with kubernetes(tmp_path, kubernetes_pod="web-1", kubernetes_container="nope"):
            pass


async def test_a_pod_that_vanishes_is_told_and_replaced(tmp_path: Path) -> None:
    async with kubernetes(tmp_path) as place:
        await place.run("x=1")
        (pod,) = pods(tmp_path)
        with pytest.raises(EnvironmentFailed, match="ended under us"):
            await place.run(f"rm -rf {pod}; kill -9 $PPID $$")
        assert (await place.run("echo ${x-none}")).output.endswith("none\n")


async def test_a_cluster_that_stops_answering_is_not_the_commands_failure(tmp_path: Path) -> None:
    async with kubernetes(tmp_path) as place:
        want(tmp_path, "down")
        with pytest.raises(EnvironmentFailed, match="refused"):
            await place.run("kill -9 $PPID $$")
        (tmp_path / "stand-in" / "down").unlink()
        assert (await place.run("exit 1")).exit_code == 1


async def test_a_connection_that_breaks_is_no_success(tmp_path: Path) -> None:
    """kubectl itself calls it one."""
    async with kubernetes(tmp_path) as place:
        want(tmp_path, "cut")
        with pytest.raises(EnvironmentFailed, match="how it ended is not known"):
            await place.run("echo half; kill -9 $PPID $$")
        (tmp_path / "stand-in" / "cut").unlink()
        assert (await place.run("echo last; kill -9 $$; kill -9 $PPID")).exit_code == 137


async def test_a_pod_that_does_not_come_up_is_told_why_and_deleted(tmp_path: Path) -> None:
    place = kubernetes(tmp_path)
    want(tmp_path, "never-ready", "Back-off pulling image")
    with pytest.raises(EnvironmentFailed, match="Back-off pulling image"):
        async with place:
            pass
    assert pods(tmp_path) == []


async def test_an_image_without_bash_is_told(tmp_path: Path) -> None:
    place = kubernetes(tmp_path)
    want(tmp_path, "no-bash")
    with pytest.raises(EnvironmentFailed, match="has no bash"):
        async with place:
            pass
    assert pods(tmp_path) == []


async def test_a_role_that_may_not_is_told(tmp_path: Path) -> None:
    place = kubernetes(tmp_path)
    want(tmp_path, "forbidden", "User cannot create resource pods")
    with pytest.raises(EnvironmentFailed, match="User cannot create"):
        async with place:
            pass
    assert "may not create pods" in (await why_not(opening(tmp_path)) or "")


async def test_a_network_that_cannot_be_closed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="NetworkPolicy"):
        async with kubernetes(tmp_path, docker_network=False):
            pass


async def test_what_is_missing_is_said_before_anything_starts(tmp_path: Path) -> None:
    nothing = opening(tmp_path)
    nothing.variables["PATH"] = str(tmp_path)
    assert "kubectl" in (await why_not(nothing) or "")
    with pytest.raises(EnvironmentFailed, match="kubectl"):
        open_kubernetes(nothing)
    install(tmp_path, "kubectl", "stand_in_kubectl")
    assert await why_not(opening(tmp_path)) is None
    want(tmp_path, "no-context")
    assert "kubernetes_context" in (await why_not(opening(tmp_path)) or "")
    assert load_plugin("environments", "kubernetes") is open_kubernetes
