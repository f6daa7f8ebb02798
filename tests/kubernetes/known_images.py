"""What a registry and the programs in its images know: whether a container of this spec runs."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

MEBIBYTE = 2**20
_AMOUNT = re.compile(r"(\d+)(Ki|Mi|Gi|k|M|G)?")
_UNITS = {None: 1, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "k": 10**3, "M": 10**6, "G": 10**9}


@dataclass(frozen=True)
class KnownImage:
    memory_mib: int = 64
    port: int = 8080
    options: frozenset[str] = frozenset({"--port", "--workers"})
    variables: frozenset[str] = frozenset()
    """Without one of them the program ends."""


IMAGES: Mapping[str, KnownImage] = {
    "registry.example/shop:1.0": KnownImage(),
    "registry.example/shop:1.1": KnownImage(memory_mib=72),
    "registry.example/api:3.2": KnownImage(memory_mib=96, variables=frozenset({"DB_URL"})),
    "registry.example/worker:7": KnownImage(memory_mib=200, port=9000),
    "registry.example/cache:2": KnownImage(memory_mib=32, port=6379),
}


class Failure(Exception):
    """Why a container does not run: a waiting reason, or the end of its program."""

    def __init__(self, reason: str, message: str, code: int | None = None) -> None:
        super().__init__(message)
        self.reason, self.message, self.code = reason, message, code


def start_container(
    spec: Mapping[str, Any], read: Callable[[str, str], Mapping[str, str] | None]
) -> None:
    """Raises `Failure`. `read`: the keys of a config map or secret of the pod's namespace."""
    image = IMAGES.get(spec["image"])
    if image is None:
        raise Failure("ErrImagePull", f'rpc error: image "{spec["image"]}": not found')
    values = _variables_of(spec, read)
    words = [*spec.get("command", ())[1:], *spec.get("args", ())]
    for word in words:
        if word.startswith("--") and word.partition("=")[0] not in image.options:
            raise Failure("Error", f"flag provided but not defined: {word}", 2)
    for name in image.variables:
        if not values.get(name):
            raise Failure("Error", f"{name} is not set", 1)
    need = image.memory_mib + int(values.get("CACHE_MIB") or 0)
    limit = spec.get("resources", {}).get("limits", {}).get("memory", "")
    if limit and need * MEBIBYTE > amount(limit):
        raise Failure("OOMKilled", "", 137)


def _variables_of(
    spec: Mapping[str, Any], read: Callable[[str, str], Mapping[str, str] | None]
) -> dict[str, str]:
    values = {each["name"]: _value_of(each, read) for each in spec.get("env", ())}
    for source in spec.get("envFrom", ()):
        for kind, key in (("configmap", "configMapRef"), ("secret", "secretRef")):
            if key not in source:
                continue
            name = source[key]["name"]
            held = read(kind, name)
            if held is None:
                raise Failure("CreateContainerConfigError", f'{kind} "{name}" not found')
            values |= held
    return values


def amount(text: str) -> int:
    found = _AMOUNT.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found else 0


def _value_of(
    entry: Mapping[str, Any], read: Callable[[str, str], Mapping[str, str] | None]
) -> str:
    for kind, name, key in (
        ("configmap", "ConfigMap", "configMapKeyRef"),
        ("secret", "Secret", "secretKeyRef"),
    ):
        reference = entry.get("valueFrom", {}).get(key)
        if reference is None:
            continue
        held = read(kind, reference["name"])
        if held is None:
            raise Failure("CreateContainerConfigError", f'{kind} "{reference["name"]}" not found')
        if reference["key"] not in held and not reference.get("optional"):
            raise Failure(
                "CreateContainerConfigError",
                f"couldn't find key {reference['key']} in {name} {held['/']}/{reference['name']}",
            )
        return held.get(reference["key"], "")
    return str(entry.get("value", ""))


def is_ready(spec: Mapping[str, Any]) -> bool:
    """A readiness probe passes where it asks the port on which the program answers."""
    probe = spec.get("readinessProbe", {})
    asked = probe.get("httpGet", probe.get("tcpSocket"))
    return asked is None or asked["port"] == IMAGES[spec["image"]].port
