"""Writes down how the SDKs want to be called, for the stand-ins to insist on.

Run it where `modal` and `daytona` are installed: python record_signatures.py > signatures.json
"""

import inspect
import json
import sys
from importlib import import_module
from importlib.metadata import version
from typing import Any

USED = {
    "modal": (
        "App.lookup.aio", "Client.from_credentials.aio", "Image.from_registry",
        "Sandbox.create.aio", "Sandbox.exec.aio", "Sandbox.terminate.aio",
        "container_process.ContainerProcess.wait.aio", "io_streams.StreamReader.read.aio",
        "io_streams.StreamWriter.drain.aio", "io_streams.StreamWriter.write",
        "io_streams.StreamWriter.write_eof",
    ),
    "daytona": (
        "AsyncDaytona", "AsyncDaytona.close", "AsyncDaytona.create", "AsyncSandbox.delete",
        "CreateSandboxFromImageParams", "DaytonaConfig", "Resources",
        "_async.filesystem.AsyncFileSystem.upload_file", "_async.process.AsyncProcess.exec",
    ),
}  # fmt: skip
"""All of them that Hermes calls, and nothing else."""
MODULES = ("container_process", "io_streams", "_async", "filesystem", "process")


def signature(sdk: str, path: str) -> list[list[Any]]:
    module, names = import_module(sdk), path.split(".")
    while names and names[0] in (
        "container_process",
        "io_streams",
        "_async",
        "filesystem",
        "process",
    ):
        module = import_module(f"{module.__name__}.{names.pop(0)}")
    found: Any = module
    for name in names:
        found = getattr(found, name)
    parameters = inspect.signature(found).parameters.values()
    return [
        [each.name, each.kind.name, each.default is not each.empty]
        for each in parameters
        if each.name not in ("self", "cls")
    ]


def record(sdk: str) -> dict[str, Any]:
    return {
        "version": version(sdk),
        "signatures": {path: signature(sdk, path) for path in USED[sdk]},
    }


if __name__ == "__main__":
    json.dump({sdk: record(sdk) for sdk in USED}, sys.stdout, indent=1)
    sys.stdout.write("\n")
