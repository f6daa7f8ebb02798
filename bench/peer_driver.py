"""Drives the peer's agent in the peer's own interpreter. Never imported by Hermes.

usage: PEER/bin/python bench/peer_driver.py turns|subagents PORT
"""

import json
import os
import resource
import sys
import time

from run_agent import AIAgent
from tools.delegate_tool import delegate_task

CHILDREN = 8


def agent(port: str, toolsets: list[str]) -> AIAgent:
    return AIAgent(
        base_url=f"http://127.0.0.1:{port}/v1",
        api_key="sk-bench",
        model="bench",
        provider="custom",
        api_mode="chat_completions",
        quiet_mode=True,
        max_iterations=90,
        enabled_toolsets=toolsets,
        skip_context_files=True,
        skip_memory=True,
        platform="cli",
    )


def turns(port: str) -> None:
    agent(port, ["terminal", "file"]).run_conversation("Run the command.")


def subagents(port: str) -> None:
    parent = agent(port, ["terminal", "file", "delegation"])
    tasks = [{"goal": f"Task {n}: run the command."} for n in range(CHILDREN)]
    answer = json.loads(delegate_task(tasks=tasks, parent_agent=parent))
    assert len(answer.get("results", ())) == CHILDREN, answer


def main() -> None:
    work = {"turns": turns, "subagents": subagents}[sys.argv[1]]
    wall, cpu = time.perf_counter(), time.process_time()
    work(sys.argv[2])
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    rss = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print("\n" + json.dumps({"wall": wall, "cpu": cpu, "rss": rss}), flush=True)
    os._exit(0)  # its threads do not end by themselves


if __name__ == "__main__":
    main()
