"""Checks the addresses of connections: a name is resolved once, every address is checked, and the
connection goes to a checked address.

The check is below HTTP, where the socket is opened. So it covers redirects, names whose addresses
change, and every way to write a number, because the resolver reads them first.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from typing import Any
from urllib.parse import urlsplit

import anyio
import msgspec

from hermes.plumbing.http_client import HttpUnreachable, PermanentHttpError

IpAddress = ipaddress.IPv4Address | ipaddress.IPv6Address
_NAT64_NETWORK = ipaddress.IPv6Network("64:ff9b::/96")
"""Its addresses end in the IPv4 address that a gateway translates them to."""
_SHARED_NETWORKS = tuple(ipaddress.IPv4Network(each) for each in ("198.18.0.0/15", "100.64.0.0/10"))
_DEFAULT_PORTS = {"http": 80, "https": 443}


class HttpAddressForbidden(PermanentHttpError):
    """It leads to an address that is not public and not configured; nothing was sent."""


def is_public(text: str) -> bool:
    """Return whether this address means the same host everywhere on the internet."""
    address = ipaddress.ip_address(text.partition("%")[0])
    inner = tuple(_inner_addresses(address))  # these decide, whatever the version of Python says
    return all(_is_global(each) for each in inner or (address,))


def _is_global(address: IpAddress) -> bool:
    return address.is_global and not (
        address.is_multicast or address.is_reserved or address.is_unspecified
    )


def _inner_addresses(address: IpAddress) -> Iterator[IpAddress]:
    """The IPv4 addresses that an IPv6 address leads to."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.ipv4_mapped:
        yield address.ipv4_mapped
    if address.sixtofour:
        yield address.sixtofour
    if address.teredo:
        yield from address.teredo
    if address in _NAT64_NETWORK:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


class AddressGuard(msgspec.Struct, frozen=True):
    """Which hosts may be connected to: public ones, and those that the operator configured."""

    allowed: frozenset[tuple[str, int]] = frozenset()
    """Host and port of the configured ones."""

    async def resolve(self, host: str, port: int) -> list[str]:
        """Addresses that may be connected to. Raises `HttpAddressForbidden` and `OSError`."""
        found = await anyio.getaddrinfo(host, port, type=1)  # SOCK_STREAM
        addresses = list(dict.fromkeys(str(sockaddr[0]) for *_, sockaddr in found))
        if (host.lower().rstrip("."), port) in self.allowed:
            return addresses
        for address in addresses:  # one private address among public ones is enough
            if not is_public(address):
                raise HttpAddressForbidden(_refusal(host, address))
        return addresses

    def check_number(self, url: str) -> None:
        """Raises `HttpAddressForbidden` for a URL whose host is a number, or localhost, that may
        not be connected to. Raises `ValueError` for what is no URL."""
        parts = urlsplit(url)
        host = (parts.hostname or "").lower().rstrip(".")
        if (host, parts.port or _DEFAULT_PORTS.get(parts.scheme)) in self.allowed:
            return
        try:
            refused = host == "localhost" or not is_public(host)
        except ValueError:  # a name, which is resolved when it is connected to
            return
        if refused:
            raise HttpAddressForbidden(_refusal(host, "127.0.0.1" if host == "localhost" else host))

    def wrap(self, network: Any) -> "GuardedNetwork":
        return GuardedNetwork(self, network)


def guard_for(urls: Iterable[str]) -> AddressGuard:
    """A guard that lets configured addresses through, by host and port."""
    allowed = set()
    for url in urls:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
        if parts.hostname and port:
            allowed.add((parts.hostname.lower().rstrip("."), port))
    return AddressGuard(frozenset(allowed))


def guard_for_addresses(addresses: Iterable[str]) -> AddressGuard:
    """A guard that lets single addresses through: `host:port`, or `host` for the usual ports.

    Raises `ValueError` for what is no address.
    """
    allowed = set()
    for each in addresses:
        parts = urlsplit(f"//{each.strip()}")
        if not parts.hostname or parts.path or parts.username:
            raise ValueError(f"{each!r} is not host:port")
        ports = (parts.port,) if parts.port else _DEFAULT_PORTS.values()
        allowed |= {(parts.hostname.lower().rstrip("."), port) for port in ports}
    return AddressGuard(frozenset(allowed))


def _refusal(host: str, address: str) -> str:
    named = host if host == address else f"{host} ({address})"
    hint = ""
    inner = ipaddress.ip_address(address.partition("%")[0])
    if isinstance(inner, ipaddress.IPv4Address) and any(inner in net for net in _SHARED_NETWORKS):
        hint = "; the resolver of this host may answer every name with such an address"
    return f"{named} is not a public address, and no setting names it{hint}"


class GuardedNetwork:
    """A network backend of httpcore2 that connects to checked addresses only."""

    def __init__(self, guard: AddressGuard, network: Any) -> None:
        self._guard, self._network = guard, network

    async def connect_tcp(
        self, host: str, port: int, timeout: float | None = None, **options: Any
    ) -> Any:
        try:
            with anyio.fail_after(timeout):
                addresses = await self._guard.resolve(host, port)
        except (OSError, UnicodeError, TimeoutError) as error:
            raise HttpUnreachable(f"{host} has no address: {error}") from error
        failure: Exception = HttpUnreachable(f"{host} has no address")
        for address in addresses:
            try:
                return await self._network.connect_tcp(address, port, timeout=timeout, **options)
            except Exception as error:  # noqa: BLE001 - the next address may answer
                failure = error
        raise failure

    async def connect_unix_socket(self, path: str, **options: Any) -> Any:
        raise HttpAddressForbidden(f"{path} is not a host")

    async def sleep(self, seconds: float) -> None:
        await anyio.sleep(seconds)
