"""The manifest of Matrix.

Nothing here imports the client library.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import MatrixSettings

MANIFEST = ChannelManifest(
    name="matrix",
    title="Matrix",
    settings=MatrixSettings,
    runtime="hermes.gateway.channels.matrix.runtime:open_channel",
    extra="matrix",
    limits=ChannelLimits(
        max_text=16_000,
        unit="bytes",
        format="html",
        max_buttons=0,
        max_file_bytes=50 * 10**6,
        pace=SendingPace(
            interval_s=0.2,
            per_minute=60,
            per_second_in_all=5.0,
        ),
    ),
    setup=(
        "Create an account for the bot on a homeserver, and log in once to get an access token.",
        "Put the token into the file .env of the home folder: MATRIX_ACCESS_TOKEN=…",
        "Name the server in config.yaml: channels: {matrix: {homeserver: "
        "'https://matrix.example.org'}}",
        "Invite the bot to a room that is NOT encrypted, and set its internal id: "
        "MATRIX_HOME_CHANNEL='!abc:example.org'",
        "Write to your bot, then let yourself in with the code that it answers: "
        "hermes pairing approve matrix CODE --as NAME",
    ),
)
"""Named by the entry point `matrix`.

An event has at most 64 KB with the plain text and the HTML in it. Encrypted rooms cannot be read,
and nothing is sent to them in the clear.
"""
