"""What an operator can decide about a Prometheus that is asked for trouble."""

import msgspec


class PrometheusRule(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A question whose answer should be empty: each series in it is an alert."""

    name: str
    """What the alert is called."""
    query: str
    """PromQL that filters, such as `up == 0`."""
    lasting: float = msgspec.field(default=0.0, name="for")
    """Seconds that a series must have been in the answer before it is an alert."""
    severity: str = ""
    """The monitor's own grade: critical, warning… Triage computes its own from the impact."""
    service_label: str = "service"
    """The label that names the service; `job` is taken where a series does not have it."""
    summary: str = ""
    """A title; empty: the name and what the series is about."""
    labels: dict[str, str] = {}
    """Added to the labels of the series."""


class PrometheusSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.prometheus`."""

    url: str = ""
    """Where Prometheus is, such as http://127.0.0.1:9090; empty: none is asked."""
    rules: tuple[PrometheusRule, ...] = ()
    """Questions of our own."""
    alerts: bool = False
    """Whether alerts that fire in Prometheus itself are taken over, without an Alertmanager."""
    every: float = 15.0
    """Seconds between two rounds."""
    timeout: float = 5.0
    """Seconds for one question."""
    fails: int = 3
    """Rounds in a row without an answer before that is an alert of its own."""
    most: int = 200
    """Series of one rule that become alerts; a rule that gives more is a rule to mend."""
    largest: int = 8 * 2**20
    """Bytes that one answer may have."""
    token_variable: str = "PROMETHEUS_TOKEN"
    """Name of the secret that is sent as bearer token, or as password where a user is named."""
    user: str = ""
    """The user for basic authentication; empty: none."""
