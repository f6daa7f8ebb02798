"""Starts a local Chromium with a separate profile, and removes everything it left."""

import os
import secrets
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.core.protocols import StartsPipedProcesses
from hermes.integrations.browser.devtools import MessageTransport, PipeTransport

PROGRAM_NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
PROFILE_PREFIX = "hermes-browser-"
MAX_DATA_KIB = 2 * 1024 * 1024
"""KiB of memory that one process of the browser may use for its data."""
MAX_PARENT_CHARS = 40
WINDOW_SIZE = (1280, 900)

# The program reads commands from descriptor 3 and answers on 4.
_START_SCRIPT = (
    'ulimit -d "$1" 2>/dev/null; ulimit -c 0; shift; exec "$@" 3<&0 4>&1 </dev/null >/dev/null'
)
_OFF_FEATURES = (
    "Translate,MediaRouter,DialMediaRouteProvider,OptimizationHints,InterestFeedContentSuggestions,"
    "AutofillServerCommunication,CertificateTransparencyComponentUpdater,GlobalMediaControls,"
    "PrivacySandboxSettings4,Prerender2,HttpsUpgrades,HttpsFirstBalancedModeAutoEnable"
)
_FLAGS = (
    "--headless=new",
    "--remote-debugging-pipe",
    f"--window-size={WINDOW_SIZE[0]},{WINDOW_SIZE[1]}",
    f"--disable-features={_OFF_FEATURES}",
    "--webrtc-ip-handling-policy=disable_non_proxied_udp",
    "--force-webrtc-ip-handling-policy=disable_non_proxied_udp",  # its name before
    "--proxy-bypass-list=<-loopback>",
    "--js-flags=--max-old-space-size=1024",
    "--password-store=basic",
    *(
        f"--{name}"
        for name in [
            "no-first-run",
            "no-default-browser-check",
            "no-pings",
            "no-service-autorun",
            "disable-background-networking",
            "disable-component-update",
            "disable-default-apps",
            "disable-extensions",
            "disable-sync",
            "disable-breakpad",
            "disable-crash-reporter",
            "disable-client-side-phishing-detection",
            "disable-domain-reliability",
            "disable-quic",
            "disable-dev-shm-usage",
            "disable-gpu",
            "disable-search-engine-choice-screen",
            "disable-background-timer-throttling",
            "disable-backgrounding-occluded-windows",
            "disable-renderer-backgrounding",
            "deny-permission-prompts",
            "metrics-recording-only",
            "mute-audio",
            "use-mock-keychain",
            "hide-crash-restore-bubble",
        ]
    ),
)


def find_program(path: str | None, chosen: str = "") -> str:
    """The browser of this host; empty when there is none. `chosen` is what CHROME_PATH says."""
    if chosen:
        return chosen if Path(chosen).is_file() else ""
    return next((found for name in PROGRAM_NAMES if (found := shutil.which(name, path=path))), "")


def program_arguments(program: str, profile: Path, proxy_port: int, *, root: bool) -> list[str]:
    """Chromium refuses to isolate its processes when it is run by root."""
    return [
        *("/bin/sh", "-c", _START_SCRIPT, "sh", str(MAX_DATA_KIB), program, *_FLAGS),
        f"--user-data-dir={profile}",
        f"--proxy-server=http://127.0.0.1:{proxy_port}",
        *(["--no-sandbox"] if root else []),
        "about:blank",
    ]


def new_profile_folder(parent: str = "") -> Path:
    """Where a profile will be: its path must be short, for the sockets in it.

    It is made when the browser starts and removed when it ends: by this process, by its watchdog,
    or by a later start.
    """
    parent = parent or tempfile.gettempdir()
    parent = parent if len(parent) <= MAX_PARENT_CHARS else "/tmp"
    return Path(parent) / f"{PROFILE_PREFIX}{secrets.token_hex(8)}"


@asynccontextmanager
async def start_local_browser(
    environment: StartsPipedProcesses,
    program: str,
    proxy_port: int,
    variables: Mapping[str, str],
    log: Path | None = None,
) -> AsyncIterator[MessageTransport]:
    """Runs until the end of the block. Raises `EnvironmentFailed`."""
    profile = new_profile_folder(variables.get("TMPDIR", ""))
    argv = program_arguments(program, profile, proxy_port, root=os.geteuid() == 0)
    own = {**variables, "HOME": str(profile), "TMPDIR": str(profile)}
    async with environment.open_piped(argv, variables=own, log=log, scratch=profile) as process:
        yield PipeTransport(process)
