"""Plays plans on several hosts at the same time, each in a thread of its own."""

import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

from real_host.namespace import CommandError
from real_host.observer import Pressure
from real_host.plans import Plan
from real_host.scene import Played, Player


class HostPool:
    """`at_once`: how many hosts are played at the same time."""

    def __init__(
        self,
        plans: list[Plan],
        folder: Path,
        at_once: int,
        seed: int,
        ended: Callable[[Played], None],
        player: type[Player] = Player,
    ) -> None:
        self._on_end = ended
        self._player = player
        self._waiting = list(enumerate(plans))
        self._folder = folder
        self._seed = seed
        self._pressure = Pressure()
        self._lock = threading.Lock()
        self._at_once = at_once
        self.played: list[Played] = []
        self.failed: list[str] = []

    def play(self) -> list[Played]:
        threads = [threading.Thread(target=self._work, daemon=True) for _ in range(self._at_once)]
        for thread in threads:
            thread.start()
            time.sleep(1)
        try:
            for thread in threads:
                thread.join()
        except KeyboardInterrupt:
            self.failed += [plan.name for _, plan in self._waiting]
            self.failed.append("the hosts under way: the run was interrupted")
        self._pressure.stop()
        return sorted(self.played, key=lambda played: played.plan.name)

    def _work(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    return
                number, plan = self._waiting.pop(0)
            try:
                played = self._player(
                    plan, self._folder, self._pressure, self._seed + number
                ).play()
            except (CommandError, OSError, subprocess.SubprocessError) as error:
                print(f"{plan.name} could not be played: {error}", flush=True)
                self.failed.append(plan.name)
                continue
            self.played.append(played)
            self._on_end(played)
            print(progress(played), flush=True)


def progress(played: Played) -> str:
    detected = sum(bool(r.detected) for r in played.records)
    recovered = sum(bool(r.recovery) for r in played.records)
    count = len(played.records)
    return (
        f"{played.plan.name} ({played.plan.manager}, {played.kills} kills): {detected} of {count} "
        f"detected, {recovered} recoveries reported {played.problem}"
    )
