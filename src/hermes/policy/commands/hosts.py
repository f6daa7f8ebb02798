"""Names of machines: which of them are certainly in the house."""

import re

LOCAL = re.compile(
    r"(?:localhost|[\w-]+\.localhost|127(?:\.\d+){0,3}|0(?:\.0){0,3}|\[::1?\]|::1|10(?:\.\d+){3}"
    r"|192\.168(?:\.\d+){2}|172\.(?:1[6-9]|2\d|3[01])(?:\.\d+){2}|\[f[cd][0-9a-f:]+\]"
    r"|[\w-]+|[\w.-]+\.(?:local|internal|lan|svc|intranet|corp|home|localdomain|cluster\.local))\.?\Z",
    re.I,
)
LOOPBACK = re.compile(r"(?:localhost|127(?:\.\d+){3}|\[?::1\]?)\Z", re.I)
