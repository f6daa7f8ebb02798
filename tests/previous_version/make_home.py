"""Makes `home.tar.gz` with the previous version of Hermes: a home as its user would have it.

usage: python tests/previous_version/make_home.py OLD_CHECKOUT

The previous version is the last commit before the modules were renamed (9687cbb). Run it as root on
Linux: the host gets a neutral name in a namespace of its own, so that no name of a real machine is
in the files. Needs an empty /srv/hermes-example, which is removed afterwards.
"""

import io
import json
import shutil
import subprocess
import sys
import tarfile
import time
import tomllib
from pathlib import Path

ROOT = Path("/srv/hermes-example")
HOME, WORK = ROOT / "home", ROOT / "work"
ARCHIVE = Path(__file__).parent / "home.tar.gz"
VARIABLES = {
    "HERMES_HOME": str(HOME),
    "HOME": str(ROOT),
    "USER": "ann",
    "LANG": "C.UTF-8",
    "PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
    "PYTHONPATH": f"{ROOT}/installed:{sys.argv[1]}/src",
    "NO_COLOR": "1",
}
LEFT_OUT = ("audit.key", "reserve", ".lock", "journal.db-shm", "journal.db-wal")
"""The private key, which belongs in no repository, and what every start makes again."""
HERMES = [sys.executable, "-m", "hermes.cli"]


def hermes(*words: str) -> str:
    done = subprocess.run(
        [*HERMES, *words], env=VARIABLES, cwd=WORK, capture_output=True, text=True, timeout=60
    )
    shown = f"$ hermes {' '.join(words)} → {done.returncode}\n{done.stdout}{done.stderr}\n"
    sys.stdout.write(shown)
    return done.stdout


def script(name: str, *replies: dict[str, object]) -> str:
    path = WORK / f"{name}.jsonl"
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return f"scripted:{path}"


def call(number: int, tool: str, **arguments: object) -> dict[str, object]:
    return {"calls": [{"id": f"c{number}", "name": tool, "arguments": arguments}]}


def approve_always() -> None:
    """Answer the question of a chat that waits for a person."""
    for _ in range(100):
        if json.loads(hermes("approvals", "list", "--json") or "[]"):
            break
        time.sleep(0.3)
    hermes("approvals", "approve", "--always", "--note", "restarts are fine here")


def install(checkout: Path) -> None:
    """The previous version finds its own parts by the entry points of its distribution."""
    found = tomllib.loads((checkout / "pyproject.toml").read_text())["project"]["entry-points"]
    info = ROOT / "installed" / "hermes-0.1.0.dist-info"
    info.mkdir(parents=True)
    lines = [
        f"[{group}]\n" + "".join(f"{name} = {target}\n" for name, target in points.items())
        for group, points in found.items()
    ]
    (info / "entry_points.txt").write_text("\n".join(lines))
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: hermes\nVersion: 0.1.0\n")


def fill_home() -> None:
    WORK.mkdir(parents=True)
    hermes("config", "set", "agent.max_iterations", "20")
    hermes("config", "set", "sre.verify.window", "1")
    first = script(
        "first",
        call(1, "memory", action="add", target="memory", content="nginx listens on port 8080"),
        call(2, "write_file", path="notes.txt", content="checked\n"),
        call(3, "terminal", command="cat notes.txt"),
        {"text": "The notes say: checked."},
    )
    hermes("chat", "-q", "check the notes", "-m", first)
    second = script(
        "second",
        call(4, "terminal", command=f"rm -rf {ROOT}/cache"),
        {"text": "The cache is removed."},
    )
    asking = subprocess.Popen(
        [*HERMES, "-s", "policy.wait=true", "chat", "-q", "remove the cache", "-m", second],
        env=VARIABLES,
        cwd=WORK,
    )
    approve_always()
    asking.wait(120)
    hermes("sessions", "rename", "latest", "cache of the shop")
    hermes("memory", "add", "the deploy window is Friday 14:00")
    hermes("skills", "new", "restart-shop", "--description", "Restarts the shop.")
    hermes("incident", "open", "the shop shows old prices", "--service", "shop", "--severity", "P2")
    (HOME / "probes.yaml").write_text("probes:\n  - {name: shop, kind: command, what: 'true'}\n")
    hermes("watch", "--once", "--model", "none", "--no-listen")
    hermes("incident", "close", "last", "--reason", "the cache was old")
    hermes("incident", "list")
    hermes("sessions", "list")
    hermes("audit", "verify")


def pack_home() -> None:
    with tarfile.open(ARCHIVE, "w:gz") as archive:
        for path in sorted(HOME.rglob("*")):
            if path.is_file() and path.name not in LEFT_OUT:
                member = tarfile.TarInfo(str(path.relative_to(HOME)))
                member.size, member.mode = path.stat().st_size, path.stat().st_mode & 0o700
                member.mtime = int(path.stat().st_mtime)
                archive.addfile(member, io.BytesIO(path.read_bytes()))
    sys.stdout.write(f"{ARCHIVE}: {ARCHIVE.stat().st_size} bytes\n")


if __name__ == "__main__":
    if sys.argv[2:] != ["inside"]:
        named = f"hostname shop-1; exec {sys.executable} {__file__} {sys.argv[1]} inside"
        sys.exit(subprocess.run(["unshare", "--uts", "sh", "-c", named]).returncode)
    try:
        install(Path(sys.argv[1]))
        fill_home()
        pack_home()
    finally:
        shutil.rmtree(ROOT)
