"""Events about servers of the Model Context Protocol: reviews, and what was withheld since."""

from hermes.core.events.base import BaseEvent
from hermes.core.messages import Risk, Value

MCP_RUN = "mcp"
"""The run of reviews: they belong to no conversation."""


class ReviewedTool(Value, frozen=True):
    """A tool of a review, with the digest of its definition."""

    name: str
    digest: str
    risk: Risk
    classed: bool = True
    """False: no person chose its class, and it asks each time."""


class McpServerReviewed(BaseEvent, tag="mcp.reviewed", kw_only=True, frozen=True):
    """A person has seen what a server offers. From now on its tools can be called."""

    server: str
    digest: str
    """SHA-256 of the whole pin."""
    address: str
    """Its command or its address."""
    by: str
    tools: tuple[ReviewedTool, ...] = ()


class McpServerRemoved(BaseEvent, tag="mcp.removed", kw_only=True, frozen=True):
    server: str
    by: str


class McpLoggedIn(BaseEvent, tag="mcp.logged_in", kw_only=True, frozen=True):
    """A person logged in at a server: calls use the tokens from now on."""

    server: str
    by: str
    issuer: str = ""
    """Who gave the tokens."""


class McpLoggedOut(BaseEvent, tag="mcp.logged_out", kw_only=True, frozen=True):
    """The tokens of a server were removed."""

    server: str
    by: str


class McpToolWithheld(BaseEvent, tag="mcp.withheld", kw_only=True, frozen=True):
    """A server describes a tool otherwise than it was reviewed, so it is not called."""

    server: str
    tool: str
    pinned: str
    """The digest of the reviewed definition."""
    offered: str = ""
    """The digest of what the server says now; empty when the tool is gone."""
