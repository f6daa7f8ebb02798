"""What an operator can decide about the door for machines."""

import msgspec


class WebSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `web` of the configuration."""

    listen: str = "127.0.0.1"
    """The address to listen on; one that others can reach needs a token."""
    port: int = 8644
    """The port to listen on; 0 takes any free one."""
    token_variable: str = "HERMES_WEB_TOKEN"
    """Name of the secret that callers must show, as bearer token or as basic password."""
    largest: int = 16 * 2**20
    """Bytes that the body of one request may have."""
    patience: float = 10.0
    """Seconds in which a request must have arrived, from its first byte to its last."""
    idle: float = 75.0
    """Seconds that a connection may be kept open with nothing said."""
    connections: int = 1000
    """Connections held at once; further ones are told to try again."""
    silence: float = 120.0
    """Seconds without a sign of life from the watch until /healthz says that it is not well."""
