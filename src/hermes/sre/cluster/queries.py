"""The fixed kubectl queries of an investigation. Each only reads, and prints one object per line.

The output is small on purpose: it is evidence that people and models read. Values of secrets are
never printed, only certificates, which are public.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from shlex import quote

from hermes.core.messages import Value
from hermes.sre.settings import KubernetesSettings

CLUSTER_LAYER = "cluster"
TEMPLATES_FOLDER = Path(__file__).parent / "templates"
QUERY_TIMEOUT_S = 15.0
MAX_EVENT_LINES = 60
WARNINGS_ALERT, FAULT_ALERT, SILENT_ALERT = OWN_ALERTS = (
    "KubernetesWarnings",
    "KubernetesFault",
    "KubernetesNotAnswering",
)
"""Names of the alerts that the watch raises about the cluster."""
KUBECTL_ERROR = re.compile(
    r"^(?:error: |Error from server|Error in configuration|Unable to connect|The connection to the"
    r" server).*",
    re.MULTILINE,
)
"""How kubectl reports that it has no answer. The exit code of a pipe does not tell."""
OBJECT_NAME = re.compile(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?")
"""Names of namespaces and most other objects, as the API server allows them."""


class ClusterQuery(Value, frozen=True):
    name: str
    """A few words, for people and prompts."""
    kinds: str
    options: str = ""
    after: str = ""
    """A shell pipe after the command."""


QUERIES: Mapping[str, ClusterQuery] = {
    "pods": ClusterQuery("pods that are not ready", "pods"),
    "workloads": ClusterQuery(
        "workloads and their rollouts", "deployments,statefulsets,daemonsets"
    ),
    "revisions": ClusterQuery("revisions of deployments", "replicasets"),
    "events": ClusterQuery(
        "warnings of the cluster",
        "events",
        options="--field-selector type=Warning --sort-by=.lastTimestamp",
        after=f"| tail -n {MAX_EVENT_LINES}",
    ),
    "services": ClusterQuery("services and their endpoints", "services,endpoints"),
    "quotas": ClusterQuery("quotas", "resourcequotas"),
    "budgets": ClusterQuery("disruption budgets", "poddisruptionbudgets"),
    "ingresses": ClusterQuery("TLS of ingresses", "ingresses.networking.k8s.io"),
    "certificates": ClusterQuery(
        "certificates",
        "secrets",
        options="--field-selector type=kubernetes.io/tls",
        after='| while read -r n s c; do printf \'certificate\\t%s\\t%s\\t%s\\n\' "$n" "$s" '
        '"$(printf %s "$c" | base64 -d 2>/dev/null | openssl x509 -noout -enddate -subject '
        "-nameopt RFC2253 2>/dev/null | tr '\\n' '\\t')\"; done",
    ),
    "nodes": ClusterQuery("nodes", "nodes"),
}
"""By a short name, in the order in which they are shown."""


def with_context_hint(text: str) -> str:
    """The words of kubectl, and what to do where the context is not there."""
    if not re.search(r"context .*(?:not found|does not exist)", text):
        return text
    hint = "sre.kubernetes.context names it, and `kubectl config get-contexts` lists them"
    return f"{text}: {hint}"


def kubectl_options(settings: KubernetesSettings) -> str:
    """The connection, written out: what the default of a kubeconfig says may change."""
    found = []
    if settings.kubeconfig.startswith("~/"):  # the shell knows whose home
        found.append(f"--kubeconfig ~/{quote(settings.kubeconfig[2:])}")
    elif settings.kubeconfig:
        found.append(f"--kubeconfig {quote(settings.kubeconfig)}")
    if settings.context:
        found.append(f"--context {quote(settings.context)}")
    return " ".join(found)


def helm_options(settings: KubernetesSettings) -> str:
    """The same connection for helm."""
    return kubectl_options(settings).replace("--context ", "--kube-context ")


def query_commands(settings: KubernetesSettings, namespaces: Sequence[str] = ()) -> dict[str, str]:
    """The command of each query, by its short name; without namespaces those of the settings."""
    wanted = [name for name in namespaces or settings.namespaces if OBJECT_NAME.fullmatch(name)]
    return {
        key: "; ".join(
            _query_command(settings, key, scope)
            for scope in ([f"-n {quote(name)}" for name in wanted] or ["--all-namespaces"])
        )
        if key != "nodes"
        else _query_command(settings, key, "")
        for key in QUERIES
    }


def read_template(name: str) -> str:
    """Line breaks and spaces around them only make the file readable."""
    lines = (TEMPLATES_FOLDER / f"{name}.gotemplate").read_text(encoding="utf-8").splitlines()
    return "".join(line.strip() for line in lines)


def _query_command(settings: KubernetesSettings, name: str, scope: str) -> str:
    query = QUERIES[name]
    parts = (
        "kubectl",
        kubectl_options(settings),
        f"--request-timeout={QUERY_TIMEOUT_S:g}s get",
        query.kinds,
        scope,
        query.options,
        f"-o go-template={quote(read_template(name))}",
        query.after,
    )
    return " ".join(part for part in parts if part)
