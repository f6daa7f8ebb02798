"""The pod that is asked for when none is named: an ordinary user, no rights, limits."""

from pathlib import PurePosixPath
from typing import Any

import msgspec

from hermes.core.errors import SettingsError
from hermes.environments.remote.keep import KEEP
from hermes.environments.settings import TerminalSettings

CONTAINER = "shell"
"""Its one container."""
LABELS = {"app.kubernetes.io/name": "hermes-shell", "app.kubernetes.io/managed-by": "hermes"}
_FOLDER = "/workspace"
_USER = 1000
_LIFE = 24 * 3600
"""Seconds after which the cluster ends it in any case."""
_LINGER = 60
"""Seconds between two looks whether somebody of ours is still in it."""


def manifest(name: str, settings: TerminalSettings) -> bytes:
    """How many processes it may have, the cluster decides: a pod cannot say (`podPidsLimit`)."""
    if not settings.docker_network:
        raise SettingsError(
            "terminal.docker_network is off, but a pod cannot close its own network: set it to "
            "true and let a NetworkPolicy of the cluster do it (pods carry the label "
            "app.kubernetes.io/managed-by=hermes)"
        )
    return msgspec.json.encode(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "labels": LABELS},
            "spec": _spec(settings),
        }
    )


def _spec(settings: TerminalSettings) -> dict[str, Any]:
    size = {"sizeLimit": f"{settings.file_mb}Mi"}
    return {
        "restartPolicy": "Never",
        "activeDeadlineSeconds": _LIFE,
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "fsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "containers": [_container(settings)],
        "volumes": [{"name": "work", "emptyDir": size}, {"name": "tmp", "emptyDir": size}],
    }


def _container(settings: TerminalSettings) -> dict[str, Any]:
    folder = settings.cwd if PurePosixPath(settings.cwd).is_absolute() else _FOLDER
    limits = {}
    if settings.memory_mb:  # 0 means no limit
        limits["memory"] = f"{settings.memory_mb}Mi"
    if settings.cpus:
        limits["cpu"] = f"{settings.cpus:g}"
    return {
        "name": CONTAINER,
        "image": settings.kubernetes_image,
        "command": ["bash", "-c", KEEP, "hermes-keep", str(_LINGER)],
        "workingDir": folder,
        "env": [{"name": "HOME", "value": folder}],
        "resources": {"limits": limits, "requests": {"memory": "64Mi", "cpu": "50m"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "privileged": False,
        },
        "volumeMounts": [
            {"name": "work", "mountPath": folder},
            {"name": "tmp", "mountPath": "/tmp"},
        ],
    }
