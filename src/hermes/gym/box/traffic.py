"""Users: they ask again and again, at uneven intervals, whatever the host is doing."""

import random
import time

from hermes.gym.box.asking import ask


def flow(request: dict[str, object]) -> None:
    """Never returns: it is ended with the box."""
    dice = random.Random(str(request.get("seed", "0")))
    targets = request["targets"]
    pause = float(str(request.get("pause", 0.5)))
    assert isinstance(targets, list | tuple)
    while True:
        ask(dice.choice(targets))
        time.sleep(dice.expovariate(1 / pause))
