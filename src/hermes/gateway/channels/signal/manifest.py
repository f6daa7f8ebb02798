"""The manifest of Signal.

Nothing here imports the client library.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import SignalSettings

MANIFEST = ChannelManifest(
    name="signal",
    title="Signal",
    settings=SignalSettings,
    runtime="hermes.gateway.channels.signal.runtime:open_channel",
    extra="signal",
    limits=ChannelLimits(
        max_text=2_000,
        unit="code points",
        max_buttons=0,
        max_file_bytes=50 * 10**6,
        pace=SendingPace(
            interval_s=1.0,
            per_minute=30,
            per_second_in_all=1.0,
        ),
    ),
    setup=(
        "Install signal-cli, and register a number of its own or link it as a second device: "
        "signal-cli -a +4912345 register, or signal-cli link -n Hermes",
        "Let it run: signal-cli -a +4912345 daemon --http 127.0.0.1:8090 "
        "--receive-mode on-connection",
        "Name it in config.yaml: channels: {signal: {url: 'http://127.0.0.1:8090', "
        "account: '+4912345'}}",
        "Write to that number, then let yourself in with the code that it answers: "
        "hermes pairing approve signal CODE --as NAME",
    ),
)
"""Named by the entry point `signal`.

Signal has no buttons and no threads: approvals are answered elsewhere, or with the id of the
question in an answer to it. It may ask an account that writes to many people for a captcha.
"""
