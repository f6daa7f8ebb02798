"""Who may call: those who know the token; and where one may listen without any."""

import base64
import binascii
import hmac
import ipaddress

from hermes.core.errors import SettingsError


def knows(authorization: str, token: str) -> bool:
    """As bearer token, or as the password of basic authentication whatever the user's name."""
    scheme, _, shown = authorization.strip().partition(" ")
    if scheme.lower() == "basic":
        try:
            shown = base64.b64decode(shown.strip(), validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return False
        shown = shown.partition(":")[2]
    elif scheme.lower() != "bearer":
        return False
    # Constant time: the duration of a comparison must not tell how much of a guess was right.
    return hmac.compare_digest(shown.strip().encode(), token.encode())


def check_exposure(listen: str, token: str, variable: str) -> None:
    """Raises `SettingsError`: an alert sets an agent to work, so strangers must not raise one."""
    if token or _is_loopback(listen):
        return
    raise SettingsError(
        f"web.listen is {listen}, which others can reach, and there is no token. "
        f"Set one (hermes config set {variable}) or listen on 127.0.0.1"
    )


def _is_loopback(listen: str) -> bool:
    try:
        return ipaddress.ip_address(listen).is_loopback
    except ValueError:
        return listen == "localhost"
