"""An episode that a person has open, scored on request from another terminal."""

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
    """What the oracle says of an episode in which a person works."""

    scenario: str
    seed: int
    resolved: bool
    reward: float
    """The part for resolution: a person's words and calls are in no journal."""
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
    """Until cancelled: whoever connects is told how it stands."""
    folder = home / SOCKET_FOLDER
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    place = folder / f"{os.getpid()}.sock"

    async def tell(stream: anyio.abc.SocketStream) -> None:
        async with stream:
            await stream.send(msgspec.json.encode(await judge()))

    try:
        listener = await anyio.create_unix_listener(place, mode=0o600)
        async with listener:
            await listener.serve(tell)
    finally:
        place.unlink(missing_ok=True)


async def request_shell_score(home: Path) -> ShellScore:
    """Of the episode that was opened last. Raises `HermesError` when there is none."""
    folder = home / SOCKET_FOLDER
    found = sorted(folder.glob("*.sock"), key=lambda each: each.stat().st_mtime, reverse=True)
    for place in found:
        try:
            stream = await anyio.connect_unix(place)
        except OSError:  # its shell was killed: nobody listens there any more
            place.unlink(missing_ok=True)
            continue
        heard = b""
        async with stream:
            async for piece in stream:
                heard += piece
        if heard:
            return msgspec.json.decode(heard[:_MAX_REPLY_BYTES], type=ShellScore)
    raise HermesError("no drill is open in a shell; open one with: hermes drill shell NAME")


def alert_banner(spec: ScenarioSpec) -> str:
    """What the person on call sees first."""
    alert = spec.alert
    labels = "  ".join(f"{name}={value}" for name, value in sorted(alert.labels.items()))
    text = "" if alert.text == alert.title else f"{alert.text}\n"
    return f"[{alert.severity}] {alert.title}\n{text}{labels}"
