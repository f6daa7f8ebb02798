"""Drives our agent against the instant server: the counterpart of `peer_driver.py`.

usage: python bench/ours.py PORT HOME [--warm] [--unconfined]
"""

import json
import resource
import sys
import time
from pathlib import Path

import anyio
from msgspec.structs import replace

from hermes.app import Application, open_application
from hermes.core.actions import Action, Approval, Decision
from hermes.settings.load import load


async def yes(action: Action, decision: Decision) -> Approval:
    return Approval(approved=True, by="bench")


async def converse(house: Application) -> None:
    conversation = await house.begin("bench")
    await conversation.say("Run the command.")


async def main(port: str, home: str) -> None:
    overrides = {
        "model.default": "bench:bench",
        "model.providers.bench.base_url": f"http://127.0.0.1:{port}/v1",
        "model.providers.bench.dialect": "openai",
        "model.providers.bench.key_variable": "none",
    }
    loaded = load(home=Path(home), variables={"PATH": "/usr/bin:/bin"}, overrides=overrides)
    async with open_application(loaded, approver=yes) as house:
        if "--unconfined" in sys.argv:
            policy = house.agent_dependencies.executor.policy
            judge = policy.decide
            policy.decide = lambda action: replace(judge(action), enforced="")
        wall = time.perf_counter()
        await converse(house)
        wall, cpu = time.perf_counter() - wall, time.process_time()
        if "--warm" in sys.argv:  # what is loaded at the first call is not a cost of each turn
            await converse(house)
            cpu = time.process_time() - cpu
        rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    # The end signs the journal, for which a library of its own is loaded.
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"wall": wall, "cpu": cpu, "rss": rss, "rss_with_signing": whole}))


if __name__ == "__main__":
    anyio.run(main, *sys.argv[1:3])
