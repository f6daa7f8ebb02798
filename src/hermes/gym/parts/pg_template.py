"""A fresh PostgreSQL cluster, made once and kept: `initdb` takes longer than a whole episode may.

The two template databases are left out: nobody makes databases in an episode, and half the size is
half the time to unpack.
"""

import base64
import io
import os
import pwd
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

from hermes.gym.scenario import PATH

FOLDER = Path(".cache/hermes/gym")
NAME = "postgresql-15-cluster-2.tar.gz"
DATABASE = "app"
INITDB = ("-N", "-U", "postgres", "--locale=C.UTF-8", "-E", "UTF8", "--wal-segsize=1", "-A", "trust")
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


def cluster(home: Path | None = None) -> str:
    """The packed cluster in base64; nothing where there is no PostgreSQL to make it with."""
    initdb, server = (shutil.which(name, path=PATH) for name in ("initdb", "postgres"))
    if initdb is None or server is None:
        return ""
    kept = (home or Path.home()) / FOLDER / NAME
    try:
        packed = kept.read_bytes()
    except OSError:
        packed = _make(initdb, server)
        _keep(kept, packed)
    return base64.b64encode(packed).decode()


def _make(initdb: str, server: str) -> bytes:
    with tempfile.TemporaryDirectory(prefix="hermes-pg-") as folder:
        place = Path(folder)
        other = _other_user()
        if other is not None:
            os.chown(place, other, other)
        data = place / "data"
        _run([initdb, *INITDB, "-D", str(data)], other)
        for database, sql in _TRIM:
            _run([server, "--single", *_LEAN, "-D", str(data), database], other, sql)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=1) as tar:
            for each in sorted(data.iterdir()):
                tar.add(each, arcname=each.name)
        return packed.getvalue()


def _other_user() -> int | None:
    """PostgreSQL refuses to work as root."""
    return pwd.getpwnam("nobody").pw_uid if os.getuid() == 0 else None


def _run(words: list[str], user: int | None, given: str = "") -> None:
    as_other = {} if user is None else {"user": user, "group": user, "extra_groups": ()}
    subprocess.run(  # type: ignore[call-overload]
        words, input=given.encode(), cwd="/", check=True, capture_output=True, **as_other
    )


def _keep(kept: Path, packed: bytes) -> None:
    """In one step: others may be about to do the same. Without a place to keep it, it is made anew."""
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=kept.parent, delete=False) as half:
            half.write(packed)
        Path(half.name).replace(kept)
    except OSError:
        return
