"""The manifest of WhatsApp.

Nothing here imports the client library.
"""

from hermes.gateway.manifest import ChannelLimits, ChannelManifest, SendingPace
from hermes.gateway.settings import WhatsAppSettings

MANIFEST = ChannelManifest(
    name="whatsapp",
    title="WhatsApp",
    settings=WhatsAppSettings,
    runtime="hermes.gateway.channels.whatsapp.runtime:open_channel",
    extra="whatsapp",
    limits=ChannelLimits(
        max_text=4_096,
        unit="code points",
        max_buttons=3,
        max_file_bytes=100 * 10**6,
        pace=SendingPace(
            interval_s=6.0,
            per_minute=10,
            per_second_in_all=20.0,
        ),
    ),
    setup=(
        "Create an app with the product WhatsApp at developers.facebook.com, and a system user "
        "whose token has whatsapp_business_messaging",
        "Put into .env: WHATSAPP_TOKEN=…, WHATSAPP_APP_SECRET=… (App settings, Basic) and "
        "WHATSAPP_VERIFY_TOKEN=… (a word of your own)",
        "Name the number in config.yaml: channels: {whatsapp: {phone_number_id: '1234567890', "
        "home_channel: '4915112345'}}",
        "Write to that number once: only for 24 hours after that may it send you free text",
        "Try it: hermes channels test whatsapp",
    ),
)
"""Named by the entry point `whatsapp`.

Messages are received by a webhook, which needs a public address with HTTPS. There are no groups.
"""
