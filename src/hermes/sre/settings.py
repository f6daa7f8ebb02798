"""What an operator can decide about the models that work on an incident."""

from typing import Literal

import msgspec


class AgentBudget(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """How far one of them may go."""

    turns: int = 10
    """Answers of the model."""
    tokens: int = 80_000
    """Tokens, sent and received."""
    seconds: float = 150.0
    """Until it is cut off."""


class CrewSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.crew`."""

    layers: tuple[str, ...] = ("processes", "service", "data", "network", "changes")
    """Which layers of a host are looked into, side by side."""
    investigator: str = "cheap"
    """Who looks: a role (default, cheap, strong) or a model."""
    synthesis: str = "strong"
    """Who judges what was found: a role or a model."""
    remediator: str = "strong"
    """Who mends: a role or a model."""
    looking: AgentBudget = AgentBudget()
    """Of each investigator."""
    judging: AgentBudget = AgentBudget(turns=2, tokens=60_000, seconds=120.0)
    """Of the one who judges; its second turn is for putting right what was malformed."""
    mending: AgentBudget = AgentBudget(turns=40, tokens=400_000, seconds=600.0)
    """Of one attempt to mend it."""
    facts_at_once: int = 6
    """Fixed looks that run side by side before a model is asked."""
    facts_seconds: float = 10.0
    """For one of them; one that hangs has no answer."""
    shown: int = 8000
    """Characters of such facts that one model is shown; a small window shows less."""
    shown_each: int = 1500
    """Characters of one of them, from its head and its tail; the whole is kept."""
    window: float = 120.0
    """Minutes before the trouble began in which a change may be its cause."""


class HealthSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.health`."""

    every: float = 300.0
    """Seconds between two rounds; 0 for none."""
    timeout: float = 60.0
    """Seconds for one round; what did not answer by then is unknown, which is not fine."""


# As in core.events, which would be loaded with every command if it were imported here.
Severity = Literal["P0", "P1", "P2", "P3"]
NoticeKind = Literal[
    "declared", "update", "approval-needed", "resolved", "escalated", "briefing", "health"
]


class SinkSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """One place where notices go."""

    kind: Literal["webhook", "ntfy", "log"]
    """webhook: JSON by POST; ntfy: text by POST, title and priority as headers; log: a file."""
    name: str = ""
    """How the journal calls it; empty: its kind. Two of one kind need names."""
    url: str = ""
    """Where to; for ntfy with the topic, such as https://ntfy.example/ops."""
    path: str = ""
    """Of a log: the file; relative to the home folder."""
    severity: Severity = "P2"
    """The least grave that is told there. A log takes everything."""
    about: tuple[NoticeKind, ...] = ()
    """Which kinds; empty: all of them."""
    secret_variable: str = ""
    """Name of a secret: webhooks are signed with it, ntfy gets it as bearer token."""


class NoticeSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.notices`."""

    sinks: tuple[SinkSettings, ...] = ()
    """Beside the terminal of the watch and the log."""
    log: str = "notices.log"
    """The file in the home folder that has every notice as a line of JSON; empty: none."""
    update: float = 60.0
    """Seconds between two words about an incident that goes on; 0 for none."""
    briefing: str = "08:00"
    """When the last day is summed up, by the local clock; empty: never."""
    most: int = 10
    """Notices a minute; what comes on top is told together. The gravest are never held back."""
    together: float = 20.0
    """Seconds for which they are held back to be told together."""
    tries: int = 8
    """Tries for each notice and sink, with growing pauses, before the others are told of it."""
    pause: float = 1.0
    """Seconds before the second try; doubled with each further one, up to a minute."""
    timeout: float = 10.0
    """Seconds for one try."""
    stale: float = 21600.0
    """Seconds after which a notice that could not be told is not worth telling any more."""


class ProbeSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.probes`."""

    file: str = "probes.yaml"
    """Which probes there are; a relative path is in the home folder."""
    side_by_side: int = 16
    """Looks of one round that run at the same time."""
    quick: float = 1.5
    """Seconds that a round waits for everybody; who needs longer is asked again alone."""
    confirm: float = 0.5
    """Seconds until a bad look is repeated, where a second look says something."""
    samples: int = 20
    """Values that must be known before one can be unusual."""
    spread: float = 6.0
    """How many times the usual spread a value may be above the usual value."""
    settle: float = 300.0
    """Seconds that an unsupervised process must have been seen before its end is an incident."""
    survey: float = 3600.0
    """Seconds between two surveys for new services; on this host a port that is opened or closed
    starts one earlier."""


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


ServiceWeight = Literal["critical", "normal", "minor"]


class GroupSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage.group`: when two alerts are one trouble."""

    window: float = 60.0
    """Seconds after the last alert of an incident in which related ones join it."""
    longest: float = 600.0
    """Seconds after its opening in which anything new may join an incident."""
    delay: float = 0.5
    """Seconds that a first alert waits for others, so that the cause gives the name."""
    batch: float = 1.0
    """Seconds between two counts of a storm."""
    by_host: bool = False
    """Whether two services of one host are one trouble; an alert about the host always is."""
    by_namespace: bool = False
    """The same for a namespace."""
    storm: int = 25
    """Incidents of one alarm within the window after which all further ones of it are one."""
    depends_on: dict[str, tuple[str, ...]] = {}
    """Which service needs which: `web: [db, cache]`."""


class FlapSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage.flapping`."""

    times: int = 4
    """Raised again so often within `window`: it flaps."""
    window: float = 900.0
    """Seconds."""
    calm: float = 600.0
    """Seconds without a change after which flapping is over."""
    steady: float = 120.0
    """Seconds that one which flaps must fire without a break to be an outage all the same."""


class TriageSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.triage`."""

    group: GroupSettings = GroupSettings()
    flapping: FlapSettings = FlapSettings()
    services: dict[str, ServiceWeight] = {}
    """How much a service matters: `shop: critical`. Patterns are allowed; others are normal."""
    pierce: bool = False
    """Whether an alert labelled as data at risk opens an incident even in maintenance."""
    settle: float = 300.0
    """Seconds that monitors have to see that an incident is over."""
    release: float = 60.0
    """Seconds after a fix in which alerts that had joined may end; then they are incidents."""
    recovery: float = 30.0
    """Seconds without a failure after which the recovery of an escalated incident is reported."""
    hush: float = 14_400.0
    """Seconds for which what was found to be no incident is not taken up again."""
    reopen: float = 1_800.0
    """Seconds after its end within which an alert that comes back names the incident before."""
    days: float = 14.0
    """Within these, the same trouble is counted as having come back."""
    keep: float = 86_400.0
    """Seconds for which an alert that is over and belongs to nothing is remembered."""
    most: int = 20_000
    """Alerts that are remembered at the same time."""


class VerifySettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre.verify`: when a fix counts as one."""

    window: float = 20.0
    """Seconds for which every check must hold."""
    longest_window: float = 600.0
    """Seconds to which the window may grow for a symptom that comes and goes."""
    patience: float = 15.0
    """Seconds that a service may take to come back before the window begins."""
    every: float = 2.0
    """Seconds between two looks within the window."""
    timeout: float = 10.0
    """Seconds for one check; one that hangs has failed."""
    trigger: bool = True
    """Whether what set the trouble off is set off again, to tell a cure from relief."""


class SreSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `sre` of the configuration."""

    attempts: int = 3
    """Fixes that may be tried, one after the other, before people are called."""
    reflex: bool = True
    """Whether trusted playbooks may act before a model is asked."""
    traces: float = 2.0
    """Seconds in which a host may come to show what an alert was about; then it is looked again."""
    agents: bool = True
    """Whether models may investigate and mend what no playbook knows."""
    learn: bool = True
    """Whether a verified fix is distilled into a draft of a skill."""
    at_once: int = 20
    """Incidents that are worked on side by side; further ones wait."""
    time_limit: float = 1800.0
    """Seconds for one incident; then people are called with what was found."""
    minds: Literal["crew", "alone"] = "crew"
    """Who works on what no playbook knows: investigators and one who mends, or one model alone."""
    crew: CrewSettings = CrewSettings()
    """Investigators side by side, one who judges, one who mends."""
    verify: VerifySettings = VerifySettings()
    """When a fix counts as one."""
    triage: TriageSettings = TriageSettings()
    """What belongs together, what is noise, what is grave."""
    probes: ProbeSettings = ProbeSettings()
    """What the watch looks at by itself."""
    prometheus: PrometheusSettings = PrometheusSettings()
    """A Prometheus that is asked for trouble."""
    notices: NoticeSettings = NoticeSettings()
    """Who is told what, and where."""
    health: HealthSettings = HealthSettings()
    """How often everything is looked at, whether or not anybody complains."""
