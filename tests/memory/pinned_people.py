"""The stored form of the events of people, pairings, tokens, reviews and what people say."""

from datetime import UTC, datetime

from hermes.core.events import Event
from hermes.core.events.access import (
    ApiHistoryRecorded,
    TokenCreated,
    TokenRevoked,
    WebhookReceived,
    WebLoginCreated,
    WebSessionEnded,
    WebSessionStarted,
    WebSessionUsed,
)
from hermes.core.events.mcp import (
    McpLoggedIn,
    McpLoggedOut,
    McpServerRemoved,
    McpServerReviewed,
    McpToolWithheld,
    ReviewedTool,
)
from hermes.core.events.people import (
    PairingApproved,
    PairingRevoked,
    PersonAdded,
    PersonRemoved,
)
from hermes.core.messages import Risk

AT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

PINNED_PEOPLE: list[tuple[Event, str]] = [
    (
        WebhookReceived(run="r", at=AT, hook="h", job="j", deliveries=("d",)),
        '{"kind":"webhook.received",HEAD,"hook":"h","job":"j","deliveries":["d"]}',
    ),
    (
        McpServerReviewed(
            run="r",
            at=AT,
            server="s",
            digest="d",
            address="x --y",
            by="b",
            tools=(ReviewedTool("t", "e", Risk.READ, False),),
        ),
        '{"kind":"mcp.reviewed",HEAD,"server":"s","digest":"d","address":"x --y","by":"b",'
        '"tools":[{"name":"t","digest":"e","risk":"read","classed":false}]}',
    ),
    (
        McpServerRemoved(run="r", at=AT, server="s", by="b"),
        '{"kind":"mcp.removed",HEAD,"server":"s","by":"b"}',
    ),
    (
        McpLoggedIn(run="r", at=AT, server="s", by="b", issuer="i"),
        '{"kind":"mcp.logged_in",HEAD,"server":"s","by":"b","issuer":"i"}',
    ),
    (
        McpLoggedOut(run="r", at=AT, server="s", by="b"),
        '{"kind":"mcp.logged_out",HEAD,"server":"s","by":"b"}',
    ),
    (
        McpToolWithheld(run="r", at=AT, server="s", tool="t", pinned="d", offered="e"),
        '{"kind":"mcp.withheld",HEAD,"server":"s","tool":"t","pinned":"d","offered":"e"}',
    ),
    (
        PersonAdded(run="r", at=AT, name="a", ids=(("telegram", "1"),), groups=("oncall",), by="b"),
        '{"kind":"person.added",HEAD,"name":"a","ids":[["telegram","1"]],"groups":["oncall"],'
        '"by":"b"}',
    ),
    (
        PersonRemoved(run="r", at=AT, name="a", by="b"),
        '{"kind":"person.removed",HEAD,"name":"a","by":"b"}',
    ),
    (
        PairingApproved(run="r", at=AT, channel="telegram", id="1", name="a", shown="A.", by="b"),
        '{"kind":"pairing.approved",HEAD,"channel":"telegram","id":"1","name":"a","shown":"A.",'
        '"by":"b"}',
    ),
    (
        PairingRevoked(run="r", at=AT, channel="telegram", id="1", by="b"),
        '{"kind":"pairing.revoked",HEAD,"channel":"telegram","id":"1","by":"b"}',
    ),
    (
        TokenCreated(
            run="r",
            at=AT,
            token="t",
            digest="d",
            person="a",
            rights=("read", "act"),
            expires_at=AT,
            by="b",
            label="l",
        ),
        '{"kind":"token.created",HEAD,"token":"t","digest":"d","person":"a","rights":["read",'
        '"act"],"expires_at":"2026-01-02T03:04:05.678901Z","by":"b","label":"l"}',
    ),
    (
        TokenRevoked(run="r", at=AT, token="t", by="b"),
        '{"kind":"token.revoked",HEAD,"token":"t","by":"b"}',
    ),
    (
        ApiHistoryRecorded(run="r", at=AT, digest="d", person="a"),
        '{"kind":"api.history",HEAD,"digest":"d","person":"a"}',
    ),
    (
        WebLoginCreated(run="r", at=AT, login="l", digest="d", person="a", expires_at=AT, by="b"),
        '{"kind":"web.login",HEAD,"login":"l","digest":"d","person":"a",'
        '"expires_at":"2026-01-02T03:04:05.678901Z","by":"b"}',
    ),
    (
        WebSessionStarted(
            run="r",
            at=AT,
            session="s",
            login="l",
            digest="d",
            person="a",
            expires_at=AT,
            browser="f",
        ),
        '{"kind":"web-session.started",HEAD,"session":"s","login":"l","digest":"d","person":"a",'
        '"expires_at":"2026-01-02T03:04:05.678901Z","browser":"f"}',
    ),
    (
        WebSessionUsed(run="r", at=AT, session="s"),
        '{"kind":"web-session.used",HEAD,"session":"s"}',
    ),
    (
        WebSessionEnded(run="r", at=AT, session="s", by="b"),
        '{"kind":"web-session.ended",HEAD,"session":"s","by":"b"}',
    ),
]
