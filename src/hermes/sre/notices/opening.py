"""From settings to sinks."""

from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from hermes.core.errors import SettingsError
from hermes.sre.notices.settings import NoticeSettings, SinkSettings
from hermes.sre.notices.sink import Sink, Wanted
from hermes.sre.notices.sinks.log_file import LogSink
from hermes.sre.notices.sinks.terminal import TerminalSink
from hermes.sre.notices.sinks.web import NtfySink, WebhookSink


def open_sinks(
    settings: NoticeSettings,
    *,
    home: Path,
    secret: Callable[[str], str | None],
    write: Callable[[str], object] | None = None,
) -> Sequence[tuple[Sink, Wanted]]:
    """`write` shows a text on this terminal; None where nobody looks at one.

    Raises `SettingsError` for a sink that could never work: better at the start than at night.
    """
    found: list[tuple[Sink, Wanted]] = []
    if write is not None:
        found.append((TerminalSink(write), Wanted(sink=TerminalSink.name)))
    if settings.log:
        found.append((LogSink(home / settings.log), Wanted(sink="log")))
    for each in settings.sinks:
        sink = _open(each, settings, home, secret)
        least = "P3" if each.kind == "log" else each.severity
        found.append((sink, Wanted(sink=sink.name, severity=least, about=each.about)))
    names = [sink.name for sink, _ in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SettingsError(
            f"sre.notices.sinks: two are called {', '.join(twice)}; give each a `name` of its own"
        )
    return tuple(found)


def _open(
    each: SinkSettings,
    settings: NoticeSettings,
    home: Path,
    secret: Callable[[str], str | None],
) -> Sink:
    name = each.name or each.kind
    if each.kind == "log":
        if not each.path:
            raise SettingsError(f"sre.notices.sinks: the log {name!r} needs a `path`")
        return LogSink(home / each.path, name=name)
    if urlsplit(each.url).scheme not in ("http", "https"):
        raise SettingsError(
            f"sre.notices.sinks: {name!r} needs a `url` that begins with http:// or https://"
        )
    known = secret(each.secret_variable) if each.secret_variable else ""
    if known is None:
        raise SettingsError(
            f"sre.notices.sinks: {name!r} needs the secret {each.secret_variable}; "
            "put it into the environment or the file .env of the home folder"
        )
    if each.kind == "webhook":
        return WebhookSink(each.url, name=name, secret=known, timeout=settings.timeout)
    return NtfySink(each.url, name=name, token=known, timeout=settings.timeout)
