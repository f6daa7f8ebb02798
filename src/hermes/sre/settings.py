"""What an operator can decide about the on-call engineer."""

from typing import Literal

import msgspec

from hermes.sre.agents.settings import CrewSettings
from hermes.sre.health_settings import HealthSettings
from hermes.sre.notices.settings import NoticeSettings
from hermes.sre.probes.settings import ProbeSettings
from hermes.sre.prometheus.settings import PrometheusSettings
from hermes.sre.triage.settings import TriageSettings


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
