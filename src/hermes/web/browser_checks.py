"""Checks a request of a browser before a page is shown or a form is accepted."""

import hashlib
import hmac
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlsplit

from hermes.plumbing.http_service import (
    HttpRefusal,
    HttpRequest,
    host_name,
    is_loopback_name,
)
from hermes.web.settings import WebSettings

SESSION_COOKIE = "__Host-hermes"
THEME_COOKIE = "theme"
THEMES = ("dark", "light")
MAX_FORM_BYTES = 64 * 1024
MAX_FORM_FIELDS = 50
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; form-action 'self'; frame-ancestors 'none'"
)
PAGE_HEADERS = {
    "content-security-policy": CONTENT_POLICY,
    "cache-control": "no-store",
    # Not `no-referrer`: with it, browsers send `Origin: null` with our own forms.
    "referrer-policy": "same-origin",
    "x-frame-options": "DENY",
    "cross-origin-opener-policy": "same-origin",
}


def check_host(request: HttpRequest, settings: WebSettings) -> None:
    """Raises `HttpRefusal`.

    A page of another site whose name resolves to our address (DNS rebinding) has another Host.
    """
    host = host_name(request)
    if not (is_loopback_name(host) or host in {each.lower() for each in settings.hosts}):
        message = f"the dashboard is not known as {host[:100]!r}; add the name to web.hosts"
        raise HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, message)
    behind_proxy = settings.proxy and request.headers.get("x-forwarded-proto", "") == "https"
    local = settings.published_locally or is_loopback_name(settings.listen)
    if settings.cert or behind_proxy or (is_loopback_name(host) and local):
        return
    raise HttpRefusal(
        HTTPStatus.FORBIDDEN,
        "the dashboard is not shown without encryption: set web.cert and web.key; or put a proxy "
        "with TLS in front of it that sends X-Forwarded-Proto, and set web.proxy; or forward the "
        "port: "
        f"ssh -L {settings.port}:127.0.0.1:{settings.port} HOST",
    )


def check_origin(request: HttpRequest, settings: WebSettings) -> None:
    """Raises `HttpRefusal` unless a page of ours sends this form."""
    site, origin = request.headers.get("sec-fetch-site", ""), request.headers.get("origin", "")
    behind_proxy = settings.proxy and "x-forwarded-proto" in request.headers
    scheme = "https" if settings.cert or behind_proxy else "http"
    parsed = urlsplit(origin)
    same = (parsed.scheme, parsed.netloc) == (scheme, request.headers.get("host", "").lower())
    if (site and site != "same-origin") or (origin and not same) or not (site or origin):
        raise HttpRefusal(HTTPStatus.FORBIDDEN, "the form was not sent by a page of this dashboard")


async def check_form_head(request: HttpRequest) -> None:
    """Raises `HttpRefusal` for a body that is no form of ours, before it is read."""
    length = request.headers.get("content-length", "")
    if not length.isdigit() or int(length) > MAX_FORM_BYTES:
        message = f"a form has at most {MAX_FORM_BYTES:,} bytes"
        raise HttpRefusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, message)


def parse_form(request: HttpRequest) -> dict[str, str]:
    """Raises `HttpRefusal`."""
    try:
        pairs = parse_qsl(
            request.body.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FORM_FIELDS,
        )
    except ValueError as error:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "the form is not understood") from error
    return dict(pairs)


def csrf_token(secret: str) -> str:
    """Bound to the session; the secret cannot be derived from it."""
    return hashlib.sha256(f"form:{secret}".encode("utf-8", "surrogateescape")).hexdigest()


def check_csrf(given: str, expected: str) -> None:
    """Raises `HttpRefusal`."""
    if not hmac.compare_digest(given.encode(), expected.encode()):
        message = "the form is of another session; open the page again and repeat it"
        raise HttpRefusal(HTTPStatus.FORBIDDEN, message)


def read_cookies(request: HttpRequest) -> dict[str, str]:
    cookies: SimpleCookie = SimpleCookie()
    try:
        cookies.load(request.headers.get("cookie", ""))
    except CookieError:
        return {}
    return {name: each.value for name, each in cookies.items()}


def session_cookie(secret: str, max_age_s: int) -> str:
    return f"{SESSION_COOKIE}={secret}; Path=/; Max-Age={max_age_s}; Secure; HttpOnly; SameSite=Lax"
