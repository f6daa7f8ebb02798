"""What the tools of one house share; handed to each tool that is made rather than just found."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermes.core.protocols import Tool
from hermes.tools.seen import Seen
from hermes.tools.settings import ToolSettings


@dataclass(frozen=True)
class Kit:
    settings: ToolSettings = field(default_factory=ToolSettings)
    seen: Seen = field(default_factory=Seen)
    tools: Mapping[str, Tool] = field(default_factory=dict)
    """Every tool of the catalogue, complete once it is built: read it when called, not before."""
