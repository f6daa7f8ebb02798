"""Settings of the HTTP server: alerts, health, metrics, the API and the dashboard."""

import msgspec


class WebhookSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """An entry of `web.hooks`."""

    job: str
    """The job that a request starts, with its body as untrusted text."""
    secret_variable: str
    """Name of the secret that requests are signed with."""


class WebSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `web` of the configuration."""

    listen: str = "127.0.0.1"
    """The address to listen on; one that others can reach needs a token."""
    port: int = 8080
    """The port to listen on; 0 takes any free one."""
    cert: str = ""
    """A file with the certificate of this server in PEM form, and those that lead to its issuer;
    empty: no TLS."""
    key: str = ""
    """The file with the key of the certificate; empty: it is in the same file."""
    token_variable: str = "HERMES_WEB_TOKEN"
    """Name of the secret that callers must send, as bearer token or as basic password."""
    largest: int = 16 * 2**20
    """Maximum size of a request body in bytes."""
    patience: float = 10.0
    """Seconds within which a request must arrive, from its first byte to its last."""
    idle: float = 75.0
    """Seconds for which an idle connection is kept open."""
    connections: int = 1000
    """Maximum number of connections at once; further ones get the answer to try again."""
    silence: float = 120.0
    """Seconds without a heartbeat of the watch until /healthz reports a problem."""
    dashboard: bool = True
    """Whether `hermes up` serves the dashboard."""
    hooks: dict[str, WebhookSettings] = {}
    """Signed requests to /hooks/NAME that start a job, by name."""
    hosts: tuple[str, ...] = ()
    """Names under which browsers reach the dashboard, beside localhost and 127.0.0.1."""
    proxy: bool = False
    """Whether a proxy with TLS is in front that sets X-Forwarded-Proto; others cannot reach us."""
    published_locally: bool = False
    """Whether only this machine reaches the port although `listen` is another address, as in a
    container whose port is published on 127.0.0.1. Then the dashboard needs no proxy with TLS."""
