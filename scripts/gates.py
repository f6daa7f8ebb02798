"""Checks that no linter has: sizes of files, and names of machines and registries in them."""

import re
import subprocess
import sys
from pathlib import Path

LIMITS = {"src": 500, "tests": 600, "bench": 400, "scripts": 200}
FOREIGN = re.compile(
    r"https?://[\w.-]*(?:pypi|pythonhosted|npmjs|debian)\.org|(?<![\w.])/(?:work|farm|root)/[\w.-]+"
)
WEIGHT = 20 * 2**20


def tracked() -> list[Path]:
    listed = subprocess.check_output(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    )
    return [path for name in listed.decode().split("\0") if name and (path := Path(name)).is_file()]


def complaints(path: Path) -> list[str]:
    if path.stat().st_size > WEIGHT:
        return [f"{path}: over 20 MB"]
    try:
        text = path.read_text()
    except UnicodeDecodeError:
        return []
    found = []
    lines, limit = text.count("\n"), LIMITS.get(path.parts[0])
    if path.suffix == ".py" and limit and lines > limit:
        found.append(f"{path}: {lines} lines, at most {limit}; find the second idea in it")
    if match := FOREIGN.search(text):
        found.append(f"{path}: names a machine or a registry: {match.group(0)}")
    return found


def main() -> int:
    found = [complaint for path in tracked() for complaint in complaints(path)]
    sys.stdout.write("\n".join(found or ["Sizes and names KEPT"]) + "\n")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
