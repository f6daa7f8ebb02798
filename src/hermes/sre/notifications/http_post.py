"""Sends one HTTP POST, and says whether a failure is permanent or may have arrived."""

from collections.abc import Mapping
from functools import partial
from http.client import HTTPException
from urllib.error import HTTPError, URLError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import anyio

from hermes.sre.notifications.sink_protocol import DeliveryError

RETRYABLE_STATUSES = frozenset({408, 425, 429})
"""Statuses after which a retry may succeed."""


class _NoRedirects(HTTPRedirectHandler):
    """Refuses redirects: a redirected POST becomes a GET, or reaches another host."""

    def redirect_request(  # type: ignore[no-untyped-def]
        self, req, fp, code, msg, headers, newurl
    ) -> None:
        return None


async def http_post(url: str, body: bytes, headers: Mapping[str, str], *, timeout: float) -> None:
    """Raises `DeliveryError`. When cancelled, the thread ends by its own timeout."""
    work = partial(_http_post, url, body, dict(headers), timeout)
    await anyio.to_thread.run_sync(work, abandon_on_cancel=True)


def _http_post(url: str, body: bytes, headers: dict[str, str], timeout: float) -> None:
    try:
        request = Request(url, data=body, method="POST", headers=headers)
        with build_opener(_NoRedirects()).open(request, timeout=timeout):
            return
    except HTTPError as error:
        error.close()
        hopeless = error.code < 500 and error.code not in RETRYABLE_STATUSES
        raise DeliveryError(
            f"answered {error.code} {error.reason}",
            permanent=hopeless,
            may_have_arrived=error.code >= 500,
        ) from None
    except URLError as error:  # before anything was sent
        raise DeliveryError(f"cannot be reached: {error.reason}") from error
    except TimeoutError as error:
        raise DeliveryError(f"no answer within {timeout:g} s", may_have_arrived=True) from error
    except (OSError, HTTPException) as error:
        raise DeliveryError(
            f"the connection failed: {type(error).__name__}: {error}", may_have_arrived=True
        ) from error
    except ValueError as error:
        raise DeliveryError(f"the address is invalid: {error}", permanent=True) from error
