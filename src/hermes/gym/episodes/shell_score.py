"""Scores an episode in which a person works, on request from another terminal."""

import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from hermes.core.errors import HermesError
from hermes.core.messages import Value
from hermes.gym.episodes.episode import Episode, EpisodeOutcome
from hermes.gym.scenario_spec import ScenarioSpec

SOCKET_FOLDER = "drills"
_MAX_REPLY_BYTES = 1 << 20


class ShellScore(Value, kw_only=True, frozen=True, omit_defaults=False):
    scenario: str
    seed: int
    resolved: bool
    reward: float
    """Only the part for resolution: a person's commands and report are not recorded."""
    collateral: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()


def shell_score(episode: Episode, seed: int, outcome: EpisodeOutcome) -> ShellScore:
    found = (*outcome.symptoms, *outcome.cured)
    return ShellScore(
        scenario=episode.scenario.name,
        seed=seed,
        resolved=outcome.resolved,
        reward=0.5 * outcome.resolved,
        collateral=outcome.damage,
        checks=tuple(f"{'✓' if each.ok else '✗'} {each.check}: {each.detail}" for each in found),
    )


async def serve_shell_score(home: Path, judge: Callable[[], Awaitable[ShellScore]]) -> None:
    """Until cancelled: sends the current score to each client that connects."""
    folder = home / SOCKET_FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"{os.getpid()}.sock"

    async def send_score(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(msgspec.json.encode(await judge()))

    try:
        listener = await anyio.create_unix_listener(path, mode=0o600)
        async with listener:
            await listener.serve(send_score)
    finally:
        path.unlink(missing_ok=True)


async def request_shell_score(home: Path) -> ShellScore:
    """Of the episode opened last. Raises `HermesError` when none is open."""
    folder = home / SOCKET_FOLDER
    found = sorted(folder.glob("*.sock"), key=lambda each: each.stat().st_mtime, reverse=True)
    for path in found:
        try:
            stream = await anyio.connect_unix(path)
        except OSError:  # its process was killed
            path.unlink(missing_ok=True)
            continue
        reply = b""
        async with stream:
            async for piece in stream:
                reply += piece
        if reply:
            return msgspec.json.decode(reply[:_MAX_REPLY_BYTES], type=ShellScore)
    raise HermesError("no drill is open in a shell; open one with: hermes drill shell NAME")


def alert_banner(spec: ScenarioSpec) -> str:
    """The alert as text, shown when the shell opens."""
    alert = spec.alert
    labels = "  ".join(f"{name}={value}" for name, value in sorted(alert.labels.items()))
    text = "" if alert.text == alert.title else f"{alert.text}\n"
    return f"[{alert.severity}] {alert.title}\n{text}{labels}"
