"""Reads the files and facts of the host on which it runs. Changes nothing.

Imports only the standard library and runs with Python 3.7: its text is sent to hosts without
Hermes. On this host it is imported.
"""

# ruff: noqa: PTH110, PTH114, PTH115, PTH119, PTH120, PTH123, PTH208, SIM905
# pathlib is slow for so many files, and words are easier to read in one text than in a list.

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import stat
import sys
import time
import zlib

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

    FileRow = tuple[Any, ...]
    """Path, type, mode, uid, gid, size, stamp, link target, and whether a service names it."""

MAX_REFERENCES_BYTES = 65536
"""Of a file in which names of other files are looked for."""
MAX_REFERENCE_DEPTH = 2
MAX_REFERENCES = 300
MAX_DIGEST_BYTES = 8 << 20
READ_BYTES = 128 * 1024
"""Of a file at once."""
MAX_NAMED_FILES = 2000
"""Below one folder that a service names."""
SYSTEM_FOLDERS = frozenset(
    "/ /bin /boot /dev /etc /home /lib /lib64 /media /mnt /opt /proc /root /run /sbin /srv /sys "
    "/tmp /usr /usr/bin /usr/lib /usr/sbin /usr/share /usr/local /usr/local/bin /usr/local/lib "
    "/usr/local/sbin /var /var/cache /var/lib /var/lock /var/log /var/run /var/spool /var/tmp "
    "/var/lib/dpkg /var/www /dev/shm /run/lock".split()
)
NEVER_READ = (
    *("/proc/", "/sys/", "/dev/", "/run/", "/tmp/", "/var/tmp/", "/var/log/", "/usr/bin/"),
    *("/usr/lib/", "/usr/sbin/", "/usr/share/", "/lib/", "/bin/", "/sbin/", "/var/cache/"),
)
DATABASE_FILES = frozenset(("PG_VERSION", "ibdata1", "WiredTiger"))
"""Files at the top of a folder in which a server keeps its databases."""
PATH_IN_TEXT = re.compile(rb"(?<![\w./-])/(?:[\w.@+-]+/)*[\w.@+-]+")
PSEUDO_FILE_SYSTEMS = frozenset(
    "proc sysfs cgroup cgroup2 devpts devtmpfs mqueue securityfs debugfs tracefs pstore bpf "
    "configfs fusectl hugetlbfs binfmt_misc autofs efivarfs nsfs rpc_pipefs squashfs".split()
)
KERNEL_SETTINGS = (
    "fs/file-max fs/nr_open fs/inotify/max_user_watches fs/inotify/max_user_instances "
    "fs/aio-max-nr fs/suid_dumpable kernel/pid_max kernel/threads-max kernel/panic "
    "kernel/panic_on_oops kernel/randomize_va_space kernel/sysrq kernel/shmmax kernel/shmall "
    "kernel/msgmax kernel/sem kernel/hostname kernel/core_pattern net/core/somaxconn "
    "net/core/netdev_max_backlog net/core/rmem_max net/core/wmem_max net/ipv4/ip_forward "
    "net/ipv4/ip_local_port_range net/ipv4/tcp_max_syn_backlog net/ipv4/tcp_fin_timeout "
    "net/ipv4/tcp_keepalive_time net/ipv4/tcp_syncookies net/ipv4/tcp_tw_reuse "
    "net/ipv4/tcp_rmem net/ipv4/tcp_wmem net/ipv4/ip_unprivileged_port_start "
    "net/ipv6/conf/all/disable_ipv6 net/netfilter/nf_conntrack_max vm/swappiness "
    "vm/overcommit_memory vm/overcommit_ratio vm/dirty_ratio vm/dirty_background_ratio "
    "vm/max_map_count vm/nr_hugepages vm/panic_on_oom vm/min_free_kbytes vm/drop_caches"
).split()


class FileWalk:
    """Collects a row for each file below folders; each path once, up to a number."""

    def __init__(self, skip: Sequence[str], max_files: int, max_folder: int) -> None:
        """`skip`: paths, and names without a slash."""
        self.rows: dict[str, FileRow] = {}
        self.left_out: list[str] = []
        self._skip = frozenset(skip)
        self._max_files = max_files
        self._max_folder = max_folder

    def add_tree(self, root: str, *, named: bool = False, max_files: int = 0) -> None:
        if not self.add(root, named=named) or self.rows[root][1] != "folder":
            return
        most = min(self._max_files, len(self.rows) + max_files) if max_files else self._max_files
        waiting = [root]
        while waiting:
            folder = waiting.pop()
            if len(self.rows) >= most:
                self.left_out.append(f"{folder}: the limit of {most:,} files is reached")
                continue
            waiting += self._add_folder(folder, named)

    def _add_folder(self, folder: str, named: bool) -> list[str]:
        """The folders in it."""
        try:
            with os.scandir(folder) as found:
                entries = list(found)
        except OSError as error:
            self.left_out.append(f"{folder}: {error.strerror}")
            return []
        if len(entries) > self._max_folder:
            self.left_out.append(f"{folder}: {len(entries):,} entries, so it holds data")
            return []
        folders = []
        for entry in sorted(entries, key=lambda each: each.name):
            if self.add(entry.path, entry, named=named) and self.rows[entry.path][1] == "folder":
                folders.append(entry.path)
        if not DATABASE_FILES.isdisjoint(each.name for each in entries):
            self.left_out += [f"{each}: it belongs to a database" for each in folders]
            return []
        return folders[::-1]

    def add(self, path: str, entry: Any = None, *, named: bool = False) -> bool:
        """Return whether it is new and exists."""
        if path in self.rows or path in self._skip or os.path.basename(path) in self._skip:
            return False
        try:
            found = entry.stat(follow_symlinks=False) if entry is not None else os.lstat(path)
            path.encode()
        except UnicodeEncodeError:
            self.left_out.append(f"{os.path.dirname(path)}: a name that is not UTF-8")
            return False
        except OSError:
            return False
        row = _file_row(path, found, named)
        if row is None:
            return False
        self.rows[path] = row
        return True


def _file_row(path: str, found: os.stat_result, named: bool) -> FileRow | None:
    kind, link = "", ""
    if stat.S_ISREG(found.st_mode):
        kind = "file"
    elif stat.S_ISDIR(found.st_mode):
        kind = "folder"
    elif stat.S_ISLNK(found.st_mode):
        kind = "link"
        try:
            link = os.readlink(path)
            link.encode()
        except (OSError, UnicodeEncodeError):
            return None
    else:
        return None
    size = found.st_size if kind == "file" else 0
    stamp = f"{size}:{found.st_mtime_ns}:{found.st_ino}:{found.st_ctime_ns}"
    mode = format(stat.S_IMODE(found.st_mode), "o")
    return (path, kind, mode, found.st_uid, found.st_gid, size, stamp, link, int(named))


def list_files(request: dict[str, Any]) -> tuple[dict[str, FileRow], list[str]]:
    """The rows of all files by path, and what was left out."""
    walk = FileWalk(request["skip"], request["max_files"], request["max_folder"])
    for root in dict.fromkeys(map(os.path.realpath, request["roots"])):
        walk.add_tree(root)
    for path in request["known"]:
        if os.path.realpath(os.path.dirname(path)) == os.path.dirname(path):
            walk.add(path, named=True)
    for path in request["named"]:
        _add_named(walk, path, tree=True)
    for path in sorted({*_named_by_processes(), *_named_in_files(request["references"])}):
        _add_named(walk, path)
    for path in sorted(_programs_of_services()):
        walk.add(path, named=True)
    return walk.rows, walk.left_out


def _add_named(walk: FileWalk, path: str, *, tree: bool = False) -> None:
    """With its folder, whose mode and owner matter as well. Through a link it would be listed a
    second time, as a file that changes with the link: the link and the real path are listed."""
    path = os.path.normpath(path)
    if path in SYSTEM_FOLDERS or path.startswith(NEVER_READ) or not os.path.lexists(path):
        return
    real = os.path.realpath(path)
    if real != path:
        for link in _links_on_the_way(path):
            walk.add(link, named=True)
        if real not in SYSTEM_FOLDERS and not real.startswith(NEVER_READ):
            _add_real(walk, real, tree)
        return
    _add_real(walk, path, tree)


def _links_on_the_way(path: str) -> Iterator[str]:
    """Those of the path, whose folders are given without links."""
    above = ""
    for name in path.strip("/").split("/"):
        here = f"{above}/{name}"
        if os.path.islink(here) and not here.startswith(NEVER_READ):
            yield here
        above = os.path.realpath(here).rstrip("/")


def _add_real(walk: FileWalk, path: str, tree: bool) -> None:
    if tree:
        walk.add_tree(path, named=True, max_files=MAX_NAMED_FILES)
    walk.add(path, named=True)
    folder = os.path.dirname(path)
    if folder not in SYSTEM_FOLDERS:
        walk.add(folder, named=True)


def _named_by_processes() -> Iterator[str]:
    """Return what command lines and open descriptors name, without data: only what is not
    written."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read(8192).split(b"\0")
            if words == [b""] or _has_terminal(pid):
                continue
            for word in words[1:]:
                value = word.rpartition(b"=")[2]
                if value.startswith(b"/"):
                    yield value.decode()
            yield from _opened_for_reading(pid)
        except (OSError, UnicodeDecodeError):
            continue


def _programs_of_services() -> set[str]:
    """The executables of running processes: a replaced one breaks the next start."""
    found: set[str] = set()  # `set[str]()` needs Python 3.9
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            if not _has_terminal(pid):
                found.add(os.readlink(f"/proc/{pid}/exe"))
        except OSError:  # it has ended, or belongs to the kernel
            continue
    return found


def _has_terminal(pid: str) -> bool:
    """A person's command is no service."""
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[4] != b"0"


def _opened_for_reading(pid: str) -> Iterator[str]:
    for number in os.listdir(f"/proc/{pid}/fd")[:256]:
        link = os.readlink(f"/proc/{pid}/fd/{number}")
        if not link.startswith("/") or link.startswith(NEVER_READ) or link.endswith(" (deleted)"):
            continue
        with open(f"/proc/{pid}/fdinfo/{number}", "rb") as file:
            flags = re.search(rb"flags:\s*0?(\d+)", file.read(200))
        if flags and int(flags[1], 8) & (os.O_WRONLY | os.O_RDWR) == 0:
            link.encode()
            yield link


def _named_in_files(paths: Iterable[str]) -> set[str]:
    """Return what these files name, and what those name in turn: the program of a service names its
    configuration, and that names its folders."""
    found: set[str] = set()
    waiting = [path for path in paths if not path.startswith(NEVER_READ)]
    for _ in range(MAX_REFERENCE_DEPTH):
        new: set[str] = set()
        for path in waiting[:MAX_REFERENCES]:
            text = read_file(path, MAX_REFERENCES_BYTES) or b""
            if b"\0" not in text:
                new.update(each.decode() for each in PATH_IN_TEXT.findall(text) if each.isascii())
        new = {each for each in new - found if not each.startswith(NEVER_READ)}
        found |= new
        waiting = sorted(new)
    return found


def read_facts() -> dict[str, dict[str, dict[str, str]]]:
    """By kind and key, the attributes of what is not a file."""
    facts: dict[str, dict[str, dict[str, str]]] = {}
    for kind, reader in _FACT_READERS.items():
        try:
            facts[kind] = dict(reader())
        except (OSError, ValueError, IndexError) as error:
            facts[kind] = {"": {"error": str(error)}}
    return facts


def _lines(path: str) -> list[str]:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read().splitlines()


def _mounts() -> Iterator[tuple[str, dict[str, str]]]:
    for line in _lines("/proc/self/mounts"):
        device, point, kind, options = line.split(" ")[:4]
        if kind not in PSEUDO_FILE_SYSTEMS and not point.startswith(("/run/", "/proc/", "/sys/")):
            yield point, {"device": device, "type": kind, "options": options}


def _kernel_settings() -> Iterator[tuple[str, dict[str, str]]]:
    for name in KERNEL_SETTINGS:
        try:
            value = " ".join(_lines(f"/proc/sys/{name}"))
        except OSError:
            continue
        yield name.replace("/", "."), {"value": " ".join(value.split())}


def _users() -> Iterator[tuple[str, dict[str, str]]]:
    for line in _lines("/etc/passwd"):
        fields = line.split(":")
        if len(fields) == 7:
            _, _, uid, gid, _, home, shell = fields
            yield fields[0], {"uid": uid, "gid": gid, "home": home, "shell": shell}


def _groups() -> Iterator[tuple[str, dict[str, str]]]:
    for line in _lines("/etc/group"):
        fields = line.split(":")
        if len(fields) == 4:
            yield fields[0], {"gid": fields[2], "members": fields[3]}


def _ports() -> Iterator[tuple[str, dict[str, str]]]:
    for protocol in ("tcp", "tcp6", "udp", "udp6"):
        try:
            lines = _lines(f"/proc/net/{protocol}")[1:]
        except OSError:
            continue
        for line in lines:
            fields = line.split()
            if fields[3] == ("0A" if protocol.startswith("tcp") else "07"):
                address, _, port = fields[1].rpartition(":")
                if protocol.startswith("udp") and int(port, 16) >= 32768:
                    continue  # the temporary port of a client
                yield f"{protocol}/{_address(address)}:{int(port, 16)}", {}


def _address(text: str) -> str:
    if len(text) == 8:
        return ".".join(str(each) for each in reversed(binascii.unhexlify(text)))
    return "*" if not text.strip("0") else text.lower()


def _packages() -> Iterator[tuple[str, dict[str, str]]]:
    """Of dpkg or apk; nothing where neither is used."""
    if os.path.exists("/var/lib/dpkg/status"):
        with open("/var/lib/dpkg/status", encoding="utf-8", errors="replace") as file:
            text = file.read()
        for block in text.split("\n\n"):
            name = re.search(r"^Package: (\S+)", block, re.MULTILINE)
            version = re.search(r"^Version: (\S+)", block, re.MULTILINE)
            if name and version and "\nStatus: deinstall" not in block:
                yield name[1], {"version": version[1]}
    elif os.path.exists("/lib/apk/db/installed"):
        name_text = ""
        for line in _lines("/lib/apk/db/installed"):
            if line.startswith("P:"):
                name_text = line[2:]
            elif line.startswith("V:"):
                yield name_text, {"version": line[2:]}


_FACT_READERS = {
    "mount": _mounts,
    "kernel-setting": _kernel_settings,
    "user": _users,
    "group": _groups,
    "port": _ports,
    "package": _packages,
}


def read_file(path: str, max_bytes: int) -> bytes | None:
    """Return None when it cannot be read or is too long. Never waits, and follows no link."""
    try:
        return b"".join(_pieces(path, max_bytes))
    except OSError:
        return None


def _pieces(path: str, max_bytes: int) -> Iterator[bytes]:
    """The content of a file, part by part. Raises `OSError`, also when it is too long."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError("no file with content")
        left = max_bytes
        while True:
            piece = os.read(descriptor, READ_BYTES)
            if not piece:
                return
            left -= len(piece)
            if left < 0:
                raise OSError("it is too long")
            yield piece
    finally:
        os.close(descriptor)


def digest_file(path: str) -> str:
    """Empty when it cannot be read or is very long."""
    digest = hashlib.sha256()
    try:
        for piece in _pieces(path, MAX_DIGEST_BYTES):
            digest.update(piece)
    except OSError:
        return ""
    return digest.hexdigest()


def answer_list(request: dict[str, Any]) -> Any:
    """A part of the files, by a number made from the path: parts need not be of one moment."""
    rows, left_out = list_files(request)
    part, parts = request["part"], request["parts"]
    chosen = [row for path, row in rows.items() if zlib.crc32(path.encode()) % parts == part]
    facts = read_facts() if part == 0 else {}
    return {
        "at": time.time(),
        "host": os.uname().nodename,
        "rows": chosen,
        "left_out": left_out,
        "facts": facts,
    }


def answer_read(request: dict[str, Any]) -> Any:
    """Contents and digests, as many as fit; what is missing in the answer is asked for again."""
    left, contents, digests = request["max_output"], {}, {}
    for path, max_bytes in request["contents"]:
        content = read_file(path, max_bytes)
        packed = base64.b64encode(zlib.compress(content or b"", 6)).decode()
        if len(packed) > request["max_output"] - 200 - len(path):
            content, packed = None, ""
        left -= len(packed) + len(path) + 16
        if left < 0:
            break
        contents[path] = packed if content is not None else None
    for path in request["digests"]:
        left -= len(path) + 80
        if left < 0:
            break
        digests[path] = digest_file(path)
    return {"contents": contents, "digests": digests}


def encode_answer(answer: Any) -> str:
    return base64.b64encode(zlib.compress(json.dumps(answer).encode(), 6)).decode()


def main(words: Iterable[str]) -> None:
    request = json.loads(zlib.decompress(base64.b64decode(sys.stdin.buffer.read())))
    answer = {"list": answer_list, "read": answer_read}[next(iter(words))](request)
    text = encode_answer(answer)
    if len(text) > request["max_output"] + 4096:
        text = encode_answer({"too_long": len(text)})
    sys.stdout.write(f"\nhermes-state {text}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
