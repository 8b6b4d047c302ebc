"""Files given by address: fetched only where the operator allows it, only from public places, never further than asked.

The name is resolved once and every address it has is checked; the connection goes to the checked address; redirects are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

import httpx

from certloop.serve.errors import FetchError, ForbiddenError, TargetError, TooLargeError
from certloop.serve.webhooks.targets import Resolve, resolve

if TYPE_CHECKING:
    from certloop.serve.config import IntakeLimits

CONNECT_S = 5.0


def fetch(url: str, limits: IntakeLimits, lookup: Resolve | None = None) -> tuple[str, bytes]:
    """The last part of the address's path, and the bytes behind it.

    Raises ForbiddenError where fetching is off, FetchError for an address that is refused or answers no file, TooLargeError.
    """
    import time

    if not limits.fetch_allowed:
        raise ForbiddenError("this service fetches no files; hand them in, or ask its operator for CERTLOOP_FETCH")
    try:
        target = resolve(url, private=limits.fetch_private, lookup=lookup)
    except TargetError:
        raise FetchError("files are fetched over https from public addresses only") from None
    deadline = time.monotonic() + limits.fetch_timeout_s
    timeout = httpx.Timeout(limits.fetch_timeout_s, connect=CONNECT_S)
    content = bytearray()
    try:
        with (
            httpx.Client(timeout=timeout, trust_env=False, follow_redirects=False) as client,
            client.stream(
                "GET", target.connect, headers={"Host": target.authority}, extensions={"sni_hostname": target.host}
            ) as answer,
        ):
            if answer.status_code != httpx.codes.OK:
                raise FetchError(f"the address answers {answer.status_code}, not the file")
            for part in answer.iter_bytes():
                content += part
                if len(content) > limits.file_bytes:
                    raise TooLargeError(f"a file may have {limits.file_bytes} bytes at most")
                if time.monotonic() > deadline:
                    raise FetchError(f"the file did not come within {limits.fetch_timeout_s:g} seconds")
    except (httpx.HTTPError, OSError) as error:
        raise FetchError(f"the file could not be fetched ({type(error).__name__})") from None
    return unquote(urlsplit(url).path).rpartition("/")[2], bytes(content)
