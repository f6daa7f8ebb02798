"""Interfaces of the hosts: each its own loopback, and cables between those of one box."""

import array
import fcntl
import os
import socket
import struct

from hermes.environments.confinement import kernel

PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
UP = 1
GET_FLAGS, SET_FLAGS = 0x8913, 0x8914


def up(name: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        request = array.array("b", struct.pack("16sh14x", name.encode(), 0))
        fcntl.ioctl(asked, GET_FLAGS, request)
        flags = struct.unpack("16sh14x", request.tobytes())[1]
        fcntl.ioctl(asked, SET_FLAGS, struct.pack("16sh14x", name.encode(), flags | UP))


def join(hosts: list[tuple[str, str, int]]) -> None:
    """One switch at the warden's, a cable to every host that has an address. Needs `ip`."""
    wired = [(name, address, pid) for name, address, pid in hosts if address]
    if not wired:
        return
    _ip("link", "add", "switch", "type", "bridge")
    _ip("link", "set", "switch", "up")
    for number, (_, address, pid) in enumerate(wired):
        _ip(
            "link",
            "add",
            f"port{number}",
            "type",
            "veth",
            "peer",
            "name",
            "eth0",
            "netns",
            str(pid),
        )
        _ip("link", "set", f"port{number}", "master", "switch", "up")
        _ip("address", "add", f"{address}/24", "dev", "eth0", inside=pid)
        _ip("link", "set", "eth0", "up", inside=pid)


def _ip(*words: str, inside: int = 0) -> None:
    enter = ["nsenter", "-t", str(inside), "-n"] if inside else []
    pid = os.posix_spawnp((enter or ["ip"])[0], [*enter, "ip", *words], {"PATH": PATH})
    _, status = os.waitpid(pid, 0)
    if status:
        raise OSError(f"`ip {' '.join(words)}` failed; is iproute2 installed?")


def step_in(pid: int) -> None:
    """From now on, this process is in that one's network."""
    fd = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    kernel.call("setns", fd, 0)
    os.close(fd)
