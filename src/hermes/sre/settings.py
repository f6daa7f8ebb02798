"""The settings of the sections `sre.*`."""

from collections.abc import Mapping
from typing import Literal

import msgspec


class AgentBudget(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The limits of one agent run."""

    turns: int = 10
    """Replies of the model."""
    tokens: int = 80_000
    """Tokens, sent and received."""
    seconds: float = 150.0
    """Seconds until it is stopped."""


class CrewSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.crew`."""

    layers: tuple[str, ...] = ("processes", "service", "data", "network", "changes")
    """Layers of a host that are investigated concurrently."""
    investigator: str = "cheap"
    """The model of the investigators: a role (default, cheap, strong) or a model."""
    synthesis: str = "strong"
    """The model that combines the findings: a role or a model."""
    remediator: str = "strong"
    """The model that fixes: a role or a model."""
    looking: AgentBudget = AgentBudget()
    """The budget of each investigator."""
    judging: AgentBudget = AgentBudget(turns=2, tokens=60_000, seconds=120.0)
    """The budget of the synthesis; its second turn is for a malformed first reply."""
    mending: AgentBudget = AgentBudget(turns=40, tokens=400_000, seconds=600.0)
    """The budget of one attempt to fix it."""
    facts_at_once: int = 6
    """Fact collectors that run concurrently before a model is called."""
    facts_seconds: float = 10.0
    """Seconds for one of them."""
    shown: int = 8000
    """Characters of facts in one prompt; less for a small context window."""
    shown_each: int = 1500
    """Characters of one fact in a prompt, from its head and its tail; all of it is stored."""
    window: float = 120.0
    """Minutes before the problem began in which a change may be its cause."""


class HealthSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.health`."""

    every: float = 300.0
    """Seconds between two rounds of all checks; 0 for none."""
    timeout: float = 60.0
    """Seconds for one round; a check without an answer by then is unknown, not ok."""


# As in core.events, which is not imported here: every command would load it.
Severity = Literal["P0", "P1", "P2", "P3"]
NoticeKind = Literal[
    "declared", "update", "approval-needed", "resolved", "escalated", "briefing", "health"
]


class SinkSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A destination of notifications."""

    kind: str
    """webhook: JSON by POST; ntfy: text by POST, title and priority as headers; log: a file;
    or a channel of a plug-in, whose own settings are in a section with its name."""
    name: str = ""
    """The name in the journal; empty: its kind. Two of one kind need names."""
    url: str = ""
    """The address; for ntfy with the topic, such as https://ntfy.example/ops."""
    path: str = ""
    """The file of a log, relative to the home folder."""
    severity: Severity = "P2"
    """The lowest severity that is sent there. A log takes everything."""
    about: tuple[NoticeKind, ...] = ()
    """The kinds of notifications that are sent there; empty: all."""
    secret_variable: str = ""
    """Name of a secret: webhooks are signed with it, ntfy gets it as bearer token."""


class NoticeSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.notices`."""

    sinks: tuple[SinkSettings, ...] = ()
    """Destinations in addition to the terminal of the watch and the log."""
    log: str = "notices.log"
    """The file in the home folder with every notification as a line of JSON; empty: none."""
    update: float = 60.0
    """Seconds between two updates about an open incident; 0 for none."""
    briefing: str = "08:00"
    """Local time of the daily briefing; empty: never."""
    most: int = 10
    """Notifications a minute; further ones are combined. Urgent ones are never held back."""
    together: float = 20.0
    """Seconds for which they are held back to be combined."""
    tries: int = 8
    """Attempts for each notification and sink before the failure is reported to other sinks."""
    pause: float = 1.0
    """Seconds before the second attempt; doubled with each further one, up to a minute."""
    timeout: float = 10.0
    """Seconds for one attempt."""
    stale: float = 21600.0
    """Seconds after which an undelivered notification is dropped."""


class ProbeSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.probes`."""

    file: str = "probes.yaml"
    """The file with the probes; a relative path is in the home folder."""
    side_by_side: int = 16
    """Probes of one round that run concurrently."""
    quick: float = 1.5
    """Seconds that a round waits for a probe; a slower one is run again alone."""
    confirm: float = 0.5
    """Seconds until a failed probe is repeated, where that is useful."""
    samples: int = 20
    """Values that are needed before one can be unusual."""
    spread: float = 6.0
    """How many times the usual spread a value may be above the median."""
    settle: float = 300.0
    """Seconds for which an unsupervised process must run before its end is an incident."""
    temporary_folders: tuple[str, ...] = ("/tmp", "/var/tmp", "/dev/shm")
    """An unsupervised process that works below one of them is a trial or a test: its end is no
    incident, and it is never started again."""
    survey: float = 3600.0
    """Seconds between two discoveries of new services; on this host a port that is opened or closed
    starts one earlier."""


class LearnedSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.learned`: checks that are learned while services are healthy."""

    enabled: bool = True
    """Whether the watch learns checks and reports deviations."""
    disabled: tuple[str, ...] = ()
    """Learned checks that raise no alert: names, patterns such as `learned-http-8080-*`, or
    measures such as `latency`. `hermes health` lists them."""


class PrometheusRule(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """A query whose result should be empty: each series in it is an alert."""

    name: str
    """The name of the alert."""
    query: str
    """PromQL that filters, such as `up == 0`."""
    lasting: float = msgspec.field(default=0.0, name="for")
    """Seconds for which a series must be in the result before it is an alert."""
    severity: str = ""
    """A severity such as critical or warning; triage computes its own from the impact."""
    service_label: str = "service"
    """The label that names the service; `job` is used where a series does not have it."""
    summary: str = ""
    """The title of the alert; empty: its name and the service or instance."""
    labels: dict[str, str] = {}
    """Added to the labels of the series."""


class PrometheusSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.prometheus`."""

    url: str = ""
    """The address of Prometheus, such as http://127.0.0.1:9090; empty: none."""
    rules: tuple[PrometheusRule, ...] = ()
    """Queries that raise alerts."""
    alerts: bool = False
    """Whether alerts that fire in Prometheus itself are read, without an Alertmanager."""
    every: float = 15.0
    """Seconds between two polls."""
    timeout: float = 5.0
    """Seconds for one query."""
    fails: int = 3
    """Polls in a row without an answer before that is an alert."""
    most: int = 200
    """Series of one rule that become alerts; a rule with more should be corrected."""
    largest: int = 8 * 2**20
    """The maximum bytes of one answer."""
    token_variable: str = "PROMETHEUS_TOKEN"
    """Name of the secret that is sent as bearer token, or as password where a user is named."""
    user: str = ""
    """The user for basic authentication; empty: none."""


class KubernetesSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.kubernetes`. Without a kubeconfig and a context there is no cluster."""

    kubeconfig: str = ""
    """The path of the kubeconfig; empty: kubectl's own, where a context is named."""
    context: str = ""
    """The context in it; empty: its current context."""
    namespaces: tuple[str, ...] = ()
    """Namespaces that are looked at; empty: all that the account may read."""
    watch: bool = False
    """Whether the watch turns warning events into alerts, as with `hermes watch --kubernetes`."""
    every: float = 10.0
    """Seconds between two polls of the events."""
    repeats: int = 2
    """How often a warning must occur before it is an alert."""
    quiet: float = 300.0
    """Seconds without a new warning after which an alert is over."""

    @property
    def configured(self) -> bool:
        return bool(self.kubeconfig or self.context)


ServiceWeight = Literal["critical", "normal", "minor"]


class GroupSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage.group`: when two alerts are one incident."""

    window: float = 60.0
    """Seconds after the last alert of an incident in which related ones join it."""
    longest: float = 600.0
    """Seconds after its opening in which alerts may join an incident."""
    delay: float = 0.5
    """Seconds that a first alert waits for others, so that the cause gives the name."""
    batch: float = 1.0
    """Seconds between two events about alerts that joined."""
    by_host: bool = False
    """Whether two services of one host are one incident; an alert about the host always joins."""
    by_namespace: bool = False
    """The same for a namespace."""
    storm: int = 25
    """Incidents of one alarm within the window after which all further ones are one incident."""
    depends_on: dict[str, tuple[str, ...]] = {}
    """Which service needs which: `web: [db, cache]`."""


class FlapSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage.flapping`."""

    times: int = 4
    """How often an alert is raised within `window` before it flaps."""
    window: float = 900.0
    """Seconds."""
    calm: float = 600.0
    """Seconds without a change after which flapping is over."""
    steady: float = 120.0
    """Seconds for which an alert must fire without a break to be an outage, at most: one that flaps
    is one when it fires for longer than it flapped."""


class TriageSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage`."""

    group: GroupSettings = GroupSettings()
    flapping: FlapSettings = FlapSettings()
    services: dict[str, ServiceWeight] = {}
    """How important a service is: `shop: critical`. Patterns are allowed; others are normal."""
    pierce: bool = False
    """Whether an alert labelled as data at risk opens an incident even in maintenance."""
    settle: float = 300.0
    """Seconds in which monitors have to resolve their alerts after an incident."""
    release: float = 60.0
    """Seconds after a fix in which joined alerts have to end; then they open incidents."""
    recovery: float = 30.0
    """Seconds without a failure after which the recovery of an escalated incident is reported."""
    hush: float = 14_400.0
    """Seconds for which the alerts of a false alarm are suppressed."""
    reopen: float = 1_800.0
    """Seconds after its end within which a returning alert names the earlier incident."""
    days: float = 14.0
    """Days within which the same problem counts as a recurrence."""
    keep: float = 86_400.0
    """Seconds for which an ended alert without an incident is remembered."""
    most: int = 20_000
    """Alerts that are remembered at the same time."""


class VerifySettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.verify`: when a fix counts as one."""

    window: float = 20.0
    """Seconds for which every check must pass."""
    longest_window: float = 600.0
    """Seconds to which the window may grow for an intermittent symptom."""
    patience: float = 15.0
    """Seconds that a service may take to recover before the window begins."""
    every: float = 2.0
    """Seconds between two runs of the checks within the window."""
    timeout: float = 10.0
    """Seconds for one check; without an answer by then it fails."""
    trigger: bool = True
    """Whether what triggered the problem is run again, to see whether it returns."""


WatchMode = Literal["observe", "suggest", "act"]
POLICY_SET_BY_MODE: Mapping[WatchMode, str] = {
    "observe": "observe",
    "suggest": "suggest",
    "act": "careful",
}


class WatchSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `watch` of the configuration."""

    mode: WatchMode = "act"
    """What `hermes watch` may do: observe (look, and report what it would do), suggest (every
    change waits for your answer) or act (the set `careful`). Once set, it takes the place of
    `policy.set` in the watch."""


class SreSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre` of the configuration."""

    niceness: int = -10
    """Priority of the watch itself, so that it still checks an overloaded host; negative values
    need root. The commands that it runs have the normal priority."""
    attempts: int = 3
    """Fixes that are tried, one after the other, before an escalation."""
    reflex: bool = True
    """Whether trusted playbooks run before a model is called."""
    test_fixes: Literal["auto", "off"] = "auto"
    """Whether fixes are tested on a copy of the host first, where it can be copied and the copy
    shows the failure. A fix that fails there does not run on the host."""
    traces: float = 2.0
    """Seconds until the host is scanned again when no playbook matched at first."""
    agents: bool = True
    """Whether models may investigate and fix what no playbook matches."""
    learn: bool = True
    """Whether a verified fix becomes a draft of a skill."""
    at_once: int = 20
    """Incidents that are worked on concurrently; further ones wait."""
    time_limit: float = 1800.0
    """Seconds for one incident; then it is escalated with what was found."""
    minds: Literal["crew", "alone"] = "crew"
    """What works on incidents without a playbook: a team of models, or one model alone."""
    crew: CrewSettings = CrewSettings()
    """The models of the team: investigators, synthesis and remediator."""
    verify: VerifySettings = VerifySettings()
    """When a fix counts as one."""
    triage: TriageSettings = TriageSettings()
    """How alerts are grouped, suppressed and graded."""
    probes: ProbeSettings = ProbeSettings()
    """The probes of the watch."""
    learned: LearnedSettings = LearnedSettings()
    """Checks that are learned while services are healthy."""
    prometheus: PrometheusSettings = PrometheusSettings()
    """A Prometheus server that is polled for alerts."""
    kubernetes: KubernetesSettings = KubernetesSettings()
    """A Kubernetes cluster that is investigated, repaired and watched."""
    notices: NoticeSettings = NoticeSettings()
    """Where notifications are sent."""
    health: HealthSettings = HealthSettings()
    """The schedule of the health checks."""
