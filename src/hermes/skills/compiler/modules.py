"""Modules that may be installed for a skill: from a list, at one version, with known hashes."""

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

from hermes.core.errors import SettingsError

SHIPPED = Path(__file__).with_name("allowed_modules.txt")
OWN = "modules.txt"
_PINNED = re.compile(r"[A-Za-z0-9][\w.-]*==[\w.!+]+(\s+--hash=sha256:[0-9a-f]{64})+")
_MODULE = re.compile(r"[A-Za-z_]\w*")


def read_allowed(*files: Path) -> dict[str, tuple[str, ...]]:
    """Module → pinned requirements. A later file wins. Raises `SettingsError` with the line."""
    found: dict[str, tuple[str, ...]] = {}
    for file in files:
        if file.is_file():
            for number, line in enumerate(file.read_text("utf-8").splitlines(), 1):
                if line.strip() and not line.lstrip().startswith("#"):
                    name, pinned = _line(line, f"{file}:{number}")
                    found[name] = pinned
    return found


def _line(line: str, where: str) -> tuple[str, tuple[str, ...]]:
    name, colon, rest = line.partition(":")
    if not colon or not _MODULE.fullmatch(name.strip()):
        raise SettingsError(f"{where}: expected `module: package==version --hash=sha256:…`")
    pinned = tuple(" ".join(part.split()) for part in rest.split(";") if part.strip())
    for each in pinned:
        if not _PINNED.fullmatch(each):
            raise SettingsError(
                f"{where}: {each[:80]!r} is not pinned; write package==version and one "
                "--hash=sha256:… or more"
            )
    return name.strip(), pinned


def requirements(modules: Sequence[str], allowed: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    """The lines of requirements.txt that these modules need, each once."""
    return tuple(dict.fromkeys(line for name in modules for line in allowed[name]))


def install_command(python: str, target: str, file: str, wheels: str = "") -> str:
    """pip as it may be used: nothing but wheels, nothing unhashed, nothing that is not listed."""
    words = [python, "-m", "pip", "install", "--quiet", "--no-input", "--require-hashes"]
    words += ["--no-deps", "--only-binary=:all:", "--disable-pip-version-check"]
    words += ["--no-index", "--find-links", wheels] if wheels else []
    return shlex.join([*words, "--target", target, "--requirement", file])
