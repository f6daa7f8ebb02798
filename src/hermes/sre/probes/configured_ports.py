"""Finds a port in the configuration of a host: its owner may be down, and need it to start."""

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

CONFIGURATION_FOLDERS = (Path("/etc"), Path("/srv"), Path("/opt"), Path("/usr/local/etc"))
_SUFFIXES = frozenset(
    {
        *(".conf", ".cfg", ".cnf", ".ini", ".env", ".service", ".socket", ".properties"),
        *(".yaml", ".yml", ".toml", ".json", ".xml"),
    }
)
_FOLDERS_OF_PLAIN_FILES = frozenset({"default", "init.d", "sites-enabled", "conf.d", "sysconfig"})
"""Folders in which files without a suffix are configuration."""
_LEFT_OUT_FOLDERS = frozenset({".git", "node_modules", "site-packages", "sites-available"})
MAX_FILES, MAX_DEPTH, MAX_FILE_BYTES = 4_000, 4, 262_144
OWN_WORD = "hermes"
"""A file that names this program may give it the port."""


def find_configured_port(port: int, folders: Sequence[Path] = CONFIGURATION_FOLDERS) -> str:
    """Return the first file that gives this port to something; empty when none does."""
    named = re.compile(
        rf"^(?!\s*[#;])[^\n]*?(?:port|listen|bind|addr|http)\w*\b[^\n,;]{{0,80}}?(?<![\d.]){port}(?!\d)",
        re.IGNORECASE | re.MULTILINE,
    )
    for path in _configuration_files(folders):
        try:
            text = path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue
        if named.search(text) and OWN_WORD not in text.lower():
            return str(path)
    return ""


def _configuration_files(folders: Sequence[Path]) -> Iterator[Path]:
    count = 0
    for folder in folders:
        for name, subfolders, files in os.walk(folder):
            here = Path(name)
            deep = len(here.relative_to(folder).parts) >= MAX_DEPTH
            subfolders[:] = [] if deep else sorted({*subfolders} - _LEFT_OUT_FOLDERS)
            for path in sorted(here / each for each in files):
                plain = not path.suffix and here.name in _FOLDERS_OF_PLAIN_FILES
                if (plain or path.suffix in _SUFFIXES) and _is_small(path):
                    count += 1
                    if count > MAX_FILES:
                        return
                    yield path


def _is_small(path: Path) -> bool:
    try:
        return path.is_file() and path.stat().st_size <= MAX_FILE_BYTES
    except OSError:
        return False
