"""The events of experiments on copies of a host during an incident."""

from typing import Literal

from hermes.core.events.base import BaseEvent


class ExperimentRan(BaseEvent, tag="experiment.ran", kw_only=True, frozen=True):
    """The failing checks ran in a copy of the host in which some changes were reverted."""

    incident: str
    number: int
    purpose: str
    """`reproduce`, `revert-all`, `keep-only`, `revert-only` or `rehearse`."""
    reverted: tuple[str, ...] = ()
    """The first of them, as `file /etc/x.conf`; never their content."""
    reverted_count: int = 0
    kept: tuple[str, ...] = ()
    outcome: str = ""
    """`fails` as on the host, `passes`, or `unclear`: something else fails, or no copy was
    possible."""
    detail: str = ""
    seconds: float = 0.0


class ExperimentsEnded(BaseEvent, tag="experiment.ended", kw_only=True, frozen=True):
    """The result of all experiments of one incident."""

    incident: str
    status: Literal["proved", "ruled-out", "not-reproduced", "impossible"]
    why: str = ""
    causes: tuple[str, ...] = ()
    diff: str = ""
    """Of the proved cause, redacted."""
    author: str = ""
    """Who changed it and how that is known; `unknown` where it is not."""
    suspects: int = 0
    experiments: int = 0
    seconds: float = 0.0
