"""Where webhooks may go: the address is resolved once, every answer is checked, and the connection goes to what was checked.

A name that leads to a public address when it is checked and to 127.0.0.1 when it is used (DNS rebinding) gains nothing, because
it is not resolved again; redirects are not followed at all.
"""

from __future__ import annotations

import ipaddress
import socket
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from certloop.serve.errors import TargetError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Resolve = Callable[[str, int], Sequence[str]]
MAX_URL = 2000
_NAT64 = (ipaddress.ip_network("64:ff9b::/96"), ipaddress.ip_network("64:ff9b:1::/48"))
_PUBLIC_BUT_INTERNAL = frozenset(map(ipaddress.ip_address, ("168.63.129.16", "192.0.0.192")))
"""Addresses of cloud providers' own services that look public: Azure's wire server, Oracle's metadata."""
_INTERNAL = "webhooks do not go to private, loopback, link-local or reserved addresses (see CERTLOOP_WEBHOOK_PRIVATE)"


@dataclass(frozen=True, slots=True)
class Target:
    """``url`` as given; ``connect``: the same with the checked address in place of the name; ``host``: the name, for TLS;
    ``authority``: the Host header."""

    url: str
    connect: str
    host: str
    authority: str


def check_url(url: str, *, private: bool) -> None:
    """Raises TargetError for an address that no endpoint may have. Nothing is resolved: what a name leads to is looked at when
    something is sent."""
    _parts(url, private=private)


def resolve(url: str, *, private: bool, lookup: Resolve | None = None) -> Target:
    """The checked target of a webhook. ``private`` allows http, private and loopback addresses (``CERTLOOP_WEBHOOK_PRIVATE``).

    Raises TargetError when the name leads nowhere, or when any of its addresses is refused.
    """
    parts = _parts(url, private=private)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    host = parts.hostname or ""
    try:
        found = list((lookup or _lookup)(host, port))
    except (OSError, UnicodeError):
        found = []
    if not found:
        raise TargetError("the host of this webhook cannot be resolved", lasting=False)
    addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in found]
    if not private and any(refused(address) for address in addresses):
        raise TargetError(_INTERNAL)
    chosen = addresses[0]
    literal = f"[{chosen}]" if chosen.version == 6 else str(chosen)
    path = parts.path or "/"
    query = f"?{parts.query}" if parts.query else ""
    name = f"[{host}]" if ":" in host else host
    authority = name if parts.port is None else f"{name}:{parts.port}"
    return Target(url, f"{parts.scheme}://{literal}:{port}{path}{query}", host, authority)


def refused(address: Address) -> bool:
    """Whether an address is not a public one, however it is written."""
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo[1] if address.teredo else None)
        if inner is None and any(address in network for network in _NAT64):
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return refused(inner)
    if address in _PUBLIC_BUT_INTERNAL:
        return True
    return not address.is_global or address.is_multicast or address.is_reserved or address.is_unspecified


def _parts(url: str, *, private: bool) -> SplitResult:
    if len(url) > MAX_URL or any(ord(c) <= 32 or ord(c) == 127 for c in url):
        raise TargetError(f"the URL of a webhook has at most {MAX_URL} characters, none of them a space or a control character")
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise TargetError("this is no URL") from None
    if parts.scheme != "https" and not (private and parts.scheme == "http"):
        raise TargetError("the URL of a webhook begins with https://")
    if parts.username is not None or parts.password is not None:
        raise TargetError("the URL of a webhook holds no user and no password")
    if not parts.hostname or parts.fragment:
        raise TargetError("the URL of a webhook has a host and no fragment")
    if port is not None and not private and port != 443 and port < 1024:
        raise TargetError("webhooks go to port 443 or to one above 1023")
    if not private and _names_internal(parts.hostname):
        raise TargetError(_INTERNAL)
    return parts


def _names_internal(host: str) -> bool:
    """Whether a host is a refused address as it is written, in any way that the system's resolver would take for one (``127.1``,
    ``2130706433``, ``0x7f.0.0.1``, full-width digits), or a name of this machine. Nothing is looked up."""
    name = unicodedata.normalize("NFKC", host).replace("\u3002", ".").partition("%")[0].rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return refused(ipaddress.ip_address(name))
    except ValueError:
        pass
    try:
        return refused(ipaddress.IPv4Address(socket.inet_aton(name)))
    except (OSError, UnicodeError):
        return False


def _lookup(host: str, port: int) -> list[str]:
    return [str(row[4][0]) for row in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)]
