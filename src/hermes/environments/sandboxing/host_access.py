"""Decides as which user the commands of a sandbox run, and which files of the host they see.

Commands never have more rights than an ordinary user. Started by an ordinary user, the sandbox
keeps that user, who owns the files to work on; the isolation hides everything else.

Started by root, it gets an unused random user id. Only then the limit on processes applies (it does
not apply to user 0), and files that only root may read are protected a second time. But the folders
that it may write to have another owner, and changing that would change the host. So:

1. A folder created for the sandbox is given to that user.
2. Any other folder is mounted with a mapped owner (an id-mapped mount, Linux 5.12): inside it
   belongs to the sandbox's user, and new files belong to the folder's owner outside.
3. Where the file system does not support that, or without namespaces, the sandbox stays user 0
   without capabilities, but only if a cgroup limits its processes; otherwise it is refused.
"""

import os
import secrets
import stat
import sys
from pathlib import Path

from hermes.core.errors import EnvironmentFailed
from hermes.core.messages import Value

FIRST_UNUSED_UID, LAST_UNUSED_UID = 1_879_048_192, 2_147_483_000
"""Above the ids of distributions and containers, below those that are negative as 32 bits."""


def is_root() -> bool:
    return os.geteuid() == 0


def is_mapped_root() -> bool:
    """Return whether user 0 is mapped to an ordinary user of the machine."""
    return all(inside or outside for inside, outside, _ in _uid_ranges())


def find_unused_uid() -> int:
    """A user id without a user; -1 when this user namespace has none left."""
    first, _, count = max(_uid_ranges(), key=lambda each: each[2], default=(0, 0, 0))
    if first <= FIRST_UNUSED_UID and first + count > LAST_UNUSED_UID:
        return FIRST_UNUSED_UID + secrets.randbelow(LAST_UNUSED_UID - FIRST_UNUSED_UID)
    if count < 10_000:
        return -1
    return (
        first + count - 2 - secrets.randbelow(4_000) - 600
    )  # 65534 and some ids above 65000 are taken


def _uid_ranges() -> list[tuple[int, int, int]]:
    """(first id inside, first id outside, count) of our user namespace."""
    try:
        lines = Path("/proc/self/uid_map").read_text().splitlines()
    except OSError:
        return []
    return [(int(a), int(b), int(c)) for a, b, c in (line.split() for line in lines)]


def foreign_owners(paths: tuple[str, ...], uid: int) -> tuple[tuple[str, int, int], ...]:
    """The paths that do not belong to `uid`, with their owners."""
    stats = [(path, Path(path).stat()) for path in paths]
    return tuple((path, each.st_uid, each.st_gid) for path, each in stats if each.st_uid != uid)


SYSTEM_PROGRAM_FOLDERS = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
)

READABLE_ETC_NAMES = """
alternatives bash.bashrc bash_completion.d ca-certificates ca-certificates.conf crypto-policies
debian_version default/locale fonts gai.conf gitconfig host.conf hostname inputrc issue java
ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime login.defs lsb-release magic
magic.mime mailcap manpath.config mime.types nanorc networks nsswitch.conf os-release perl
pki/tls/certs profile profile.d protocols python3 python3.11 python3.12 python3.13 redhat-release
rpc services shells skel ssl/certs ssl/openssl.cnf terminfo timezone vim xattr.conf
"""
"""Listed one by one: /etc also has passwords, keys and configurations of services."""

NEVER_WRITABLE_FOLDERS = """
/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys
/tmp /usr /var /var/lib /var/log /var/tmp
"""

SECRET_HOME_FOLDERS = (".ssh", ".hermes", ".gnupg", ".aws", ".config", ".kube", ".docker")


MAX_COPIED_FILE_BYTES = 1 << 17
"""Larger files are mounted instead of copied."""


class SystemFiles(Value, frozen=True):
    """The files that are readable in every sandbox."""

    paths: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """Links of the root folder, such as /bin -> usr/bin."""
    files: tuple[tuple[str, bytes], ...]
    """Small files of `paths` with their content: a copy is faster than a mount."""


def find_system_files(*, network: bool = False) -> SystemFiles:
    names = [*READABLE_ETC_NAMES.split(), *(["resolv.conf"] if network else [])]
    links = tuple(
        (path, str(Path(path).readlink()))
        for path in SYSTEM_PROGRAM_FOLDERS
        if Path(path).is_symlink()
    )
    folders = [
        path
        for path in SYSTEM_PROGRAM_FOLDERS
        if Path(path).is_dir() and not Path(path).is_symlink()
    ]
    etc = [f"/etc/{name}" for name in names if Path(f"/etc/{name}").exists()]
    small = tuple((path, Path(path).read_bytes()) for path in etc if _is_copyable(path))
    return SystemFiles((*folders, *etc, *_python_folders(folders)), links, small)


def _is_copyable(path: str) -> bool:
    """Small and readable for all users: a copy must not show more than the file did."""
    found = Path(path).stat()
    plain = stat.S_ISREG(found.st_mode) and found.st_mode & 0o444 == 0o444
    return plain and 0 < found.st_size <= MAX_COPIED_FILE_BYTES


def _python_folders(folders: list[str]) -> list[str]:
    """The current interpreter and its packages, which `python` needs inside."""
    prefixes = {os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)}
    outside = [path for path in prefixes if not any(_within(path, each) for each in folders)]
    return [path for path in outside if not _grants_too_much(path)]


def _within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def resolve_grants(paths: tuple[str, ...], *, writable: bool) -> tuple[str, ...]:
    """The real paths of the granted paths. Raises `EnvironmentFailed` for one that is too wide."""
    return tuple(_resolve_grant(path, writable) for path in paths)


def _resolve_grant(path: str, writable: bool) -> str:
    real = os.path.realpath(Path(path).expanduser())
    if not Path(real).exists():
        raise EnvironmentFailed(
            f"the sandbox was granted {path}, which is not there; make it first"
        )
    if writable and real in NEVER_WRITABLE_FOLDERS.split():
        raise EnvironmentFailed(
            f"the sandbox cannot be given {real} to write to; choose a folder in it"
        )
    if _grants_too_much(real):
        raise EnvironmentFailed(
            f"the sandbox cannot be given {real}: your keys and settings are in it. "
            "Start from a project folder, or set terminal.cwd to one"
        )
    return real


def _grants_too_much(path: str) -> bool:
    """Return True for a folder that contains the home folder, and for its secret folders."""
    home = Path(os.path.realpath(Path.home()))
    return any(
        _within(str(each), path) for each in (home, *(home / name for name in SECRET_HOME_FOLDERS))
    )


def identity_files(uid: int, gid: int, home: str) -> tuple[tuple[str, bytes], ...]:
    """The user database inside: only the user of the commands."""
    name = "root" if uid == 0 else "sandbox"
    users = f"{name}:x:{uid}:{gid}:sandbox:{home}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
    groups = f"{name}:x:{gid}:\nnogroup:x:65534:\n"
    hosts = "127.0.0.1 localhost sandbox\n::1 localhost\n"
    return (
        ("/etc/passwd", users.encode()),
        ("/etc/group", groups.encode()),
        ("/etc/hosts", hosts.encode()),
    )
