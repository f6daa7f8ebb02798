"""Reads unit files: the part of systemd's format that the supervisor of a host supports.

Imports only the standard library.
"""

import os
import re
import resource
import shlex

UNIT_FOLDER = "/etc/systemd/system"
HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""The PATH of services, cron jobs and shells on a host."""
SECONDS_BY_SUFFIX = {"ms": 0.001, "s": 1.0, "sec": 1.0, "min": 60.0, "m": 60.0, "h": 3600.0}
VALUES_BY_PROGRAM_KEY = {
    "command": "ExecStart",
    "user": "User",
    "directory": "WorkingDirectory",
    "environment": "Environment",
}
"""The values of a unit by the keys of supervisord."""
BYTES_BY_SUFFIX = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


class UnitFile:
    """A unit file with its drop-ins, as it was when last loaded."""

    def __init__(
        self, name: str, path: str, values: dict[str, list[str]], modified_when_loaded: float
    ) -> None:
        self.name = name
        self.path = path
        self.values = values
        self.modified_when_loaded = modified_when_loaded
        """Modification time of the newest of its files at that moment."""

    def last_value(self, key: str, default: str = "") -> str:
        found = self.values.get(key)
        return found[-1] if found else default

    def all_values(self, key: str) -> list[str]:
        return self.values.get(key, [])

    def seconds(self, key: str, default: float) -> float:
        return parse_seconds(self.last_value(key), default)

    @property
    def memory_max(self) -> int:
        text = self.last_value("MemoryMax")
        if not text or text == "infinity":
            return 0
        return int(float(text.rstrip("KMGB")) * BYTES_BY_SUFFIX.get(text.rstrip("B")[-1:], 1))

    def file_limits(self) -> tuple[int, int] | None:
        """Soft and hard limit of open files; None without a valid one."""
        _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
        return parse_limits(self.last_value("LimitNOFILE"), most)

    def problems(self) -> list[str]:
        """Values that are ignored, in the words of systemd."""
        text = self.last_value("LimitNOFILE")
        if text and self.file_limits() is None:
            return [f"Failed to parse resource value, ignoring: LimitNOFILE={text}"]
        return []

    @property
    def drop_ins(self) -> list[str]:
        return [f"{self.path}.d/{each}" for each in sorted(_list_folder(f"{self.path}.d"))]

    @property
    def enabled(self) -> bool:
        return os.path.lexists(f"{UNIT_FOLDER}/multi-user.target.wants/{self.name}")

    def environment(self) -> dict[str, str]:
        """Raises `OSError` when an environment file is missing."""
        found: dict[str, str] = {}
        for text in self.values.get("Environment", []):
            found |= dict(word.partition("=")[::2] for word in shlex.split(text))
        for path in self.values.get("EnvironmentFile", []):
            optional, path = path.startswith("-"), path.lstrip("-")
            if optional and not os.path.exists(path):  # noqa: PTH110 - pathlib is slow to import
                continue
            with open(path, errors="replace") as file:  # noqa: PTH123 - see above
                found |= parse_environment_file(file.read())
        return found


def parse_environment_file(text: str) -> dict[str, str]:
    found = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            found[name] = value.strip().strip("\"'")
    return found


def parse_seconds(text: str, default: float) -> float:
    if not text or text == "infinity":
        return default
    digits = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    return float(digits) * SECONDS_BY_SUFFIX.get(text[len(digits) :].strip() or "s", 1.0)


def parse_limits(text: str, most: int) -> tuple[int, int] | None:
    """`N`, `infinity` or `SOFT:HARD`, each at most `most`; None when it is none of them."""
    soft, colon, hard = text.partition(":")
    found = []
    for each in (soft, hard if colon else soft):
        if each != "infinity" and not each.isdigit():
            return None
        found.append(most if each == "infinity" else min(int(each), most))
    return (found[0], found[1]) if found[0] <= found[1] else None


def load_unit_files() -> dict[str, UnitFile]:
    found = {}
    for name in sorted(_list_folder(UNIT_FOLDER)):
        if name.endswith(".service"):
            found[name] = load_unit_file(name)
    return found


UNIT_FOLDERS = (UNIT_FOLDER, "/run/systemd/system", "/usr/local/lib/systemd/system",
                "/usr/lib/systemd/system", "/lib/systemd/system")  # fmt: skip
"""Where systemd looks for a unit; the first one counts, and the drop-ins of all."""


def load_given_services(
    services: "tuple[tuple[str, tuple[str, ...]], ...]", *, from_files: bool
) -> dict[str, UnitFile]:
    """Of a copy: as the supervisor of the machine runs them, or as their files say now."""
    found = {}
    for name, lines in services:
        values: dict[str, list[str]] = {}
        own = any(line.startswith("SourcePath=") for line in lines)  # of another supervisor
        files = _files_of_unit(name) if (from_files and not own) or not lines else []
        for each in files:
            with open(each, errors="replace") as file:  # noqa: PTH123 - pathlib is slow to import
                parse_unit_file(file.read(), values)
        if not files:
            parse_unit_file("\n".join(lines), values)
        if from_files and own:
            values |= read_program_section(values["SourcePath"][-1], name)
        path = files[0] if files else f"{UNIT_FOLDER}/{name}"
        found[name] = UnitFile(name, path, _fill_in_specifiers(name, values), 0.0)
    return found


def read_program_section(path: str, unit: str) -> dict[str, list[str]]:
    """The values that the configuration of supervisord has for a program now; none where the file
    is missing or does not define it."""
    try:
        with open(path, errors="replace") as file:  # noqa: PTH123 - see above
            lines = file.read().splitlines()
    except OSError:
        return {}
    header, inside, found = f"[program:{unit.removesuffix('.service')}]", False, {}
    for line in lines:
        if line.startswith("["):
            inside = line.partition("]")[0] + "]" == header
        key, equals, value = line.partition("=")
        name = VALUES_BY_PROGRAM_KEY.get(key.strip())
        if inside and equals and name:
            found[name] = [re.split(r"\s;", value)[0].strip()]
    for name in VALUES_BY_PROGRAM_KEY.values() if "ExecStart" in found else ():
        found.setdefault(name, [])
    if variables := found.get("Environment"):
        found["Environment"] = re.split(r",\s*(?=[A-Za-z_]\w*=)", variables[0])
    return found


def _files_of_unit(name: str) -> list[str]:
    before, at, instance = name.removesuffix(".service").partition("@")
    names = [name, *([f"{before}@.service"] if at and instance else [])]
    paths = [f"{folder}/{each}" for each in names for folder in UNIT_FOLDERS]
    main = next((path for path in paths if os.path.isfile(path)), "")  # noqa: PTH113 - see above
    if not main:
        return []
    drop_ins: dict[str, str] = {}
    for each in reversed(paths):
        folder = f"{each}.d"
        drop_ins |= {name: f"{folder}/{name}" for name in _list_folder(folder)}
    return [main, *(drop_ins[each] for each in sorted(drop_ins) if each.endswith(".conf"))]


def _fill_in_specifiers(name: str, values: dict[str, list[str]]) -> dict[str, list[str]]:
    instance = name.removesuffix(".service").partition("@")[2]
    words = {"%i": instance, "%I": instance, "%n": name, "%t": "/run", "%S": "/var/lib", "%%": "%"}
    words |= {"%N": name.removesuffix(".service"), "%H": os.uname().nodename, "%h": "/root"}
    for key, texts in values.items():
        for specifier, value in words.items():
            texts = [text.replace(specifier, value) for text in texts]
        values[key] = texts
    return values


def load_unit_file(name: str) -> UnitFile:
    path = f"{UNIT_FOLDER}/{name}"
    files = [path, *(f"{path}.d/{each}" for each in sorted(_list_folder(f"{path}.d")))]
    values: dict[str, list[str]] = {}
    for each in files:
        with open(each, errors="replace") as file:  # noqa: PTH123 - see above
            parse_unit_file(file.read(), values)
    return UnitFile(name, path, values, last_modified(name))


def last_modified(name: str) -> float:
    path = f"{UNIT_FOLDER}/{name}"
    files = [path, *(f"{path}.d/{each}" for each in _list_folder(f"{path}.d"))]
    return max((os.stat(each).st_mtime for each in files if os.path.exists(each)), default=0.0)  # noqa: PTH116, PTH110


def _list_folder(folder: str) -> list[str]:
    try:
        return os.listdir(folder)  # noqa: PTH208 - see above
    except OSError:
        return []


def parse_unit_file(text: str, values: dict[str, list[str]]) -> None:
    """Adds to `values`. A key without a value removes earlier values, as in a drop-in."""
    for line in text.replace("\\\n", " ").splitlines():
        line = line.strip()
        if not line or line[0] in "#;[":
            continue
        key, equals, value = line.partition("=")
        if not equals:
            continue
        if value.strip():
            values.setdefault(key.strip(), []).append(value.strip())
        else:
            values.pop(key.strip(), None)
