"""Settings of the policy; the rules are in separate files."""

from typing import Literal

import msgspec


class PolicySettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `policy` of the configuration."""

    set: Literal["observe", "suggest", "careful", "sandboxed"] = "careful"
    """Rules to start from: observe (looking only), suggest (every change asks), careful, sandboxed
    (isolated places free)."""
    folder: str = ""
    """Folder of your own policy files; empty means `policies` in the home folder."""
    project: Literal["off", "tighten", "trust"] = "tighten"
    """Whether `.hermes/policies` of the working folder counts: not, only to tighten, or fully."""
    approval_timeout: float = 600.0
    """Seconds to wait for the answer to a question; no answer is a no."""
    wait: bool = False
    """Somebody follows from elsewhere: also runs without a terminal wait for an answer."""
    groups: dict[str, tuple[str, ...]] = {}
    """Who stands behind a name in `approvers.from`, such as oncall: user names."""
    announce: float = 30.0
    """Seconds after which an announced action (a restart) proceeds unless it is stopped; 0 asks
    and waits for an answer instead."""
    always_days: int = 365
    """How long an answer "always" is good for."""
    timezone: str = ""
    """Whose hours `now.hour` means, such as Europe/Berlin; empty is this machine's zone."""
    command_allowlist: tuple[str, ...] = ()
    """Exact commands that need no approval, one by one; the floor still holds."""
