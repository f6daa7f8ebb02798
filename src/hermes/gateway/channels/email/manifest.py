"""The manifest of e-mail.

Nothing here imports a library for mail.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import EmailSettings

MANIFEST = ChannelManifest(
    name="email",
    title="E-mail",
    settings=EmailSettings,
    runtime="hermes.gateway.channels.email.runtime:open_channel",
    limits=ChannelLimits(
        max_text=100_000,
        unit="code points",
        max_buttons=0,
        max_file_bytes=10 * 10**6,
        pace=SendingPace(
            interval_s=1.0,
            per_minute=10,
            per_second_in_all=1.0,
        ),
    ),
    setup=(
        "Create a mailbox for Hermes alone: whoever can read it reads what Hermes reports",
        "Put its password into .env: EMAIL_PASSWORD=…",
        "Name it in config.yaml: channels: {email: {address: hermes@example.org, "
        "smtp_host: smtp.example.org, home_channel: oncall@example.org}}",
        "To be heard by mail as well: channels: {email: {inbound: true, "
        "imap_host: imap.example.org, allowed_users: [you@example.org]}}",
        "Read mail only where the mail server refuses forged senders of your own domain: "
        "SPF, DKIM and DMARC",
        "Try it: hermes channels test email",
    ),
)
"""Named by the entry point `email`.

There are no buttons: the sender of a mail can be forged, so that no mail approves anything.
"""
