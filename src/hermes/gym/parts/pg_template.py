"""A fresh PostgreSQL cluster, made once and kept: `initdb` takes longer than a whole episode may.

The two template databases are left out: nobody makes databases in an episode, and half the size is
half the time to unpack.
"""

import base64
import io
import os
import pwd
import tarfile
import tempfile
from pathlib import Path

from hermes.core.errors import PlaceFailed
from hermes.gym.parts.pg_found import Server
from hermes.gym.scenario import PATH

FOLDER = Path(".cache/hermes/gym")
NAME = "postgresql-{version}-cluster-2.tar.gz"
DATABASE = "app"
INITDB = (
    "-N",
    "-U",
    "postgres",
    "--locale=C.UTF-8",
    "-E",
    "UTF8",
    "--wal-segsize=1",
    "-A",
    "trust",
)
_LEAN = ("-F", "-c", "min_wal_size=2MB", "-c", "max_wal_size=2MB")
_TRIM = (
    (
        "template1",
        f"CREATE DATABASE {DATABASE}\n"
        "UPDATE pg_database SET datistemplate = false WHERE datname = 'template0'\n"
        "DROP DATABASE template0\n",
    ),
    (
        "postgres",
        "UPDATE pg_database SET datistemplate = false WHERE datname = 'template1'\n"
        "DROP DATABASE template1\n",
    ),
)


def cluster(found: Server, home: Path | None = None) -> str:
    """The packed cluster in base64; nothing where there is no PostgreSQL to make it with."""
    initdb, server = f"{found.bin}/initdb", f"{found.bin}/postgres"
    if not Path(initdb).exists():
        return ""
    kept = (home or Path.home()) / FOLDER / NAME.format(version=found.version)
    try:
        packed = kept.read_bytes()
    except OSError:
        packed = _make(initdb, server)
        _keep(kept, packed)
    return base64.b64encode(packed).decode()


def _make(initdb: str, server: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="hermes-pg-") as folder:
        data, script = Path(folder) / "data", Path(folder) / "sql"
        as_other = _as_other(folder)
        script.touch()
        _run([*as_other, initdb, *INITDB, "-D", str(data)], script)
        for database, sql in _TRIM:
            script.write_text(sql)
            _run([*as_other, server, "--single", *_LEAN, "-D", str(data), database], script)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            for each in sorted(data.iterdir()):
                tar.add(each, arcname=each.name)
        return packed.getvalue()


def _as_other(folder: str) -> list[str]:
    """PostgreSQL refuses to work as root: words that make a program somebody else's."""
    if os.getuid():
        return []
    uid = pwd.getpwnam("nobody").pw_uid
    os.chown(folder, uid, uid)
    return ["/usr/bin/setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups"]


def _run(words: list[str], given: Path) -> None:
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, str(given), os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    pid = os.posix_spawn(words[0], words, {"PATH": PATH}, file_actions=actions)
    if os.waitpid(pid, 0)[1]:
        raise PlaceFailed(f"no PostgreSQL cluster could be made; `{' '.join(words)}` failed")


def _keep(kept: Path, packed: bytes) -> None:
    """In one step: others may be about to do the same. No place to keep it: it is made anew."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as half:
            half.write(packed)
        Path(half.name).replace(kept)
    except OSError:
        return
