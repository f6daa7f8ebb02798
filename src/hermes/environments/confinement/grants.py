"""What a sandbox may see of this machine: the system's programs, and what the operator granted."""

import os
import stat
import sys
from pathlib import Path

from hermes.core.errors import PlaceFailed
from hermes.core.messages import Value

PROGRAMS = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store")

CONFIGURATION = """
alternatives bash.bashrc bash_completion.d ca-certificates ca-certificates.conf crypto-policies
debian_version default/locale fonts gai.conf gitconfig host.conf hostname inputrc issue java
ld.so.cache ld.so.conf ld.so.conf.d locale.alias locale.conf localtime login.defs lsb-release magic
magic.mime mailcap manpath.config mime.types nanorc networks nsswitch.conf os-release perl
pki/tls/certs profile profile.d protocols python3 python3.11 python3.12 python3.13 redhat-release
rpc services shells skel ssl/certs ssl/openssl.cnf terminfo timezone vim xattr.conf
"""
"""Named one by one: /etc also holds passwords, keys and the configuration of services."""

NEVER_WRITABLE = """
/ /bin /boot /dev /etc /home /lib /lib32 /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys
/tmp /usr /var /var/lib /var/log /var/tmp
"""

SECRET = (".ssh", ".hermes", ".gnupg", ".aws", ".config", ".kube", ".docker")


SMALL = 1 << 17
"""Bytes of a file that is copied rather than mounted."""


class System(Value, frozen=True):
    """What is readable in every sandbox."""

    paths: tuple[str, ...]
    links: tuple[tuple[str, str], ...]
    """Links of the root folder, such as /bin -> usr/bin."""
    files: tuple[tuple[str, bytes], ...]
    """Small ones of `paths`, with their content: a copy is quicker than a mount."""


def system(*, network: bool = False) -> System:
    names = [*CONFIGURATION.split(), *(["resolv.conf"] if network else [])]
    links = tuple(
        (path, str(Path(path).readlink())) for path in PROGRAMS if Path(path).is_symlink()
    )
    folders = [path for path in PROGRAMS if Path(path).is_dir() and not Path(path).is_symlink()]
    etc = [f"/etc/{name}" for name in names if Path(f"/etc/{name}").exists()]
    small = tuple((path, Path(path).read_bytes()) for path in etc if _is_small(path))
    return System((*folders, *etc, *_python(folders)), links, small)


def _is_small(path: str) -> bool:
    """And readable for everybody: a copy must not show more than the file did."""
    found = Path(path).stat()
    plain = stat.S_ISREG(found.st_mode) and found.st_mode & 0o444 == 0o444
    return plain and 0 < found.st_size <= SMALL


def _python(folders: list[str]) -> list[str]:
    """The interpreter we run on, and the packages beside it: code that `python` needs inside."""
    prefixes = {os.path.realpath(sys.base_prefix), os.path.realpath(sys.prefix)}
    outside = [path for path in prefixes if not any(_within(path, each) for each in folders)]
    return [path for path in outside if not _too_much(path)]


def _within(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder)


def granted(paths: tuple[str, ...], *, writable: bool) -> tuple[str, ...]:
    """Real paths of what the operator named. Raises `PlaceFailed` for one that gives too much."""
    return tuple(_granted(path, writable) for path in paths)


def _granted(path: str, writable: bool) -> str:
    real = os.path.realpath(Path(path).expanduser())
    if not Path(real).exists():
        raise PlaceFailed(f"the sandbox was granted {path}, which is not there; make it first")
    if writable and real in NEVER_WRITABLE.split():
        raise PlaceFailed(f"the sandbox cannot be given {real} to write to; choose a folder in it")
    if _too_much(real):
        raise PlaceFailed(
            f"the sandbox cannot be given {real}: your keys and settings are in it. "
            "Start from a project folder, or set terminal.cwd to one"
        )
    return real


def _too_much(path: str) -> bool:
    """True for a folder that holds the home folder, and for the secret places in it."""
    home = Path(os.path.realpath(Path.home()))
    return any(_within(str(each), path) for each in (home, *(home / name for name in SECRET)))


def identity_files(uid: int, gid: int, home: str) -> tuple[tuple[str, bytes], ...]:
    """Who exists inside: the commands' own user, and nobody of the host."""
    name = "root" if uid == 0 else "sandbox"
    users = f"{name}:x:{uid}:{gid}:sandbox:{home}:/bin/bash\nnobody:x:65534:65534::/:/bin/false\n"
    groups = f"{name}:x:{gid}:\nnogroup:x:65534:\n"
    hosts = "127.0.0.1 localhost sandbox\n::1 localhost\n"
    return (
        ("/etc/passwd", users.encode()),
        ("/etc/group", groups.encode()),
        ("/etc/hosts", hosts.encode()),
    )
