"""All figures in one run: ours beside the bare interpreter and beside the peer, as ratios.

usage: python bench/run.py [--no-peer] [--only NAME ...] [--json]
The peer is installed into build/peer (once) and driven as its users would drive it.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from measure import HERE, Cost, environment, median, server

PEER = "hermes-agent==0.19.0"
PEER_HOME = HERE.parent / "build/peer"
HERMES = Path(sys.executable).parent / "hermes"


@dataclass(frozen=True)
class Row:
    figure: str
    ours: float
    unit: str
    target: str
    met: bool
    floor: float | None = None
    peer: float | None = None


@dataclass(frozen=True)
class Peer:
    """The other agent, in a virtual environment of its own; None of it is imported here."""

    python: Path
    home: Path

    def run(self, mode: str, port: str) -> dict[str, float]:
        command = [self.python, HERE / "peer_driver.py", mode, port]
        done = subprocess.run(command, env=self.environment(port), capture_output=True, text=True)
        lines = [line for line in done.stdout.splitlines() if line.startswith('{"wall"')]
        if not lines:
            raise RuntimeError(f"the peer did not finish: {done.stderr[-800:]}")
        return dict(json.loads(lines[-1]))

    def environment(self, port: str) -> dict[str, str]:
        (self.home / "config.yaml").write_text(
            "model:\n  default: bench\n  provider: custom\n"
            f"  base_url: http://127.0.0.1:{port}/v1\n  api_key: sk-bench\n"
            "delegation:\n  max_concurrent_children: 8\n"
        )
        return environment({"HERMES_HOME": str(self.home), "HOME": str(self.home)})


def install_peer() -> Peer:
    python = PEER_HOME / "bin/python"
    if not (PEER_HOME / "bin/hermes").exists():
        print(f"installing {PEER} into {PEER_HOME} …", file=sys.stderr)
        subprocess.run([sys.executable, "-m", "venv", PEER_HOME], check=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", PEER], check=True)
    home = PEER_HOME / "home"
    home.mkdir(exist_ok=True)
    return Peer(python, home)


def ours(port: str, *options: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as home:
        command = [sys.executable, HERE / "ours.py", port, home, *options]
        done = subprocess.run(command, env=environment(), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    return dict(json.loads(done.stdout))


def settings(port: str, home: str) -> dict[str, str]:
    """How a person would point Hermes at a server of their own."""
    prefix = "HERMES_MODEL__PROVIDERS__BENCH__"
    return {
        "HERMES_HOME": home,
        "DEFAULT_MODEL": "bench:bench",
        f"{prefix}BASE_URL": f"http://127.0.0.1:{port}/v1",
        f"{prefix}DIALECT": "openai",
        f"{prefix}KEY_VARIABLE": "none",
    }


def starts(peer: Peer | None) -> list[Row]:
    floor = median([sys.executable, "-c", "pass"], 15)
    rows = []
    for option in ("--version", "--help"):
        mine = median([HERMES, option], 15)
        other = median([PEER_HOME / "bin/hermes", option], 3).cpu if peer else None
        rows.append(
            Row(
                f"hermes {option}, CPU",
                mine.cpu * 1e3,
                "ms",
                "≤ 4× floor",
                mine.cpu <= 4 * floor.cpu,
                floor.cpu * 1e3,
                other and other * 1e3,
            )
        )
    return rows


def one_shot(peer: Peer | None) -> list[Row]:
    with server() as port, tempfile.TemporaryDirectory() as home:
        mine = median([HERMES, "chat", "-q", "ping"], 9, settings(port, home))
        other: Cost | None = None
        if peer:
            hermes = PEER_HOME / "bin/hermes"
            other = median([hermes, "-z", "ping"], 3, peer.environment(port))
    met = other is None or mine.cpu <= other.cpu / 12
    row = Row("one question, CPU", mine.cpu * 1e3, "ms", "≤ 1/12 peer", met)
    return [Row(**{**vars(row), "peer": other and other.cpu * 1e3})]


def tool_turns(peer: Peer | None) -> list[Row]:
    turns = 50
    with server("--turns", str(turns)) as port:
        mine, asked = ours(port, "--warm"), _requests(port)
        assert len(asked) == 2 * (turns + 1), f"{len(asked)} requests"
        other = peer.run("turns", port) if peer else None
    with server("--turns", str(turns)) as port:
        bare = ours(port, "--warm", "--unconfined")["cpu"] / turns * 1e3
    per_turn = mine["cpu"] / turns * 1e3
    theirs = other and other["cpu"] / turns * 1e3
    rss = other and other["rss"]
    figure = "50 tool turns, CPU a turn once loaded"
    return [
        Row(figure, per_turn, "ms", "≤ 8 ms", per_turn <= 8, None, theirs),
        Row(f"{figure}, not confined", bare, "ms", "≤ 5 ms", bare <= 5, None, theirs),
        Row(
            "memory after 100 turns (peer: 50)",
            mine["rss"],
            "MB",
            "≤ 50 MB",
            mine["rss"] <= 50,
            None,
            rss,
        ),
        Row("... and with signing", mine["rss_with_signing"], "MB", "no target", True),
        Row("first request on the wire", asked[0] / 1e3, "KB", "≤ 10 KB", asked[0] <= 10_000),
    ]


def _requests(port: str) -> list[float]:
    """Bytes of each request that the server has seen."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/stats") as answer:
        return [row["bytes"] for row in json.load(answer)["rows"]]


def side_by_side(peer: Peer | None) -> list[Row]:
    """Four commands of one message take the time of the slowest, not the sum."""
    nap = '{"command": "sleep 0.5; echo STEP"}'
    with server("--turns", "4", "--parallel", "4", "--arguments", nap) as port:
        mine = ours(port)["wall"] / 4
        other = peer.run("turns", port)["wall"] / 4 if peer else None
    return [Row("4 × sleep 0.5 in one message", mine, "s", "≤ 0.7 s", mine <= 0.7, 0.5, other)]


def subagents(peer: Peer | None) -> list[Row]:
    with server("--turns", "5", "--delegate", "8") as port:
        mine = ours(port)["wall"]
        assert len(_requests(port)) == 2 + 8 * 6, "a subagent did not do its work"
        other = peer.run("subagents", port)["wall"] if peer else None
    met = other is None or mine <= other / 10
    return [Row("8 subagents × 5 calls", mine, "s", "≤ 1/10 peer", met, None, other)]


def script(name: str) -> Callable[[Peer | None], list[Row]]:
    """Figures that stand alone: a script that prints one JSON row a figure."""

    def run(peer: Peer | None) -> list[Row]:
        command = [sys.executable, HERE / name]
        done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True)
        if done.returncode:
            raise RuntimeError(f"{name} failed")
        found = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        return [
            Row(r["figure"], r["value"], r["unit"], f"≤ {r['limit']:g} {r['unit']}", r["held"])
            for r in found
        ]

    return run


SECTIONS: dict[str, Callable[[Peer | None], list[Row]]] = {
    "starts": starts,
    "one_shot": one_shot,
    "tool_turns": tool_turns,
    "side_by_side": side_by_side,
    "subagents": subagents,
    "journal": script("journal.py"),
    "search": script("search.py"),
    "audit": script("audit.py"),
    "environments": script("environments.py"),
    "sandbox": script("sandbox.py"),
    "hostile": script("hostile.py"),
    "gym": script("gym.py"),
}


TABLES = (
    "remote_environments.py",
    "policy_commands.py",
    "policy_blind.py",
    "policy_sandbox.py",
    "policy_differential.py",
    "confined_differential.py",
    "paraphrases.py",
    "skills.py",
    "skill_scanner.py",
    "playbooks.py",
)
"""Scripts with a table of their own: places, the gate's reading, recall, skills."""


def table(rows: list[Row]) -> str:
    lines = ["| figure | ours | floor | peer | peer ÷ ours | target | met |", "|---|" + "---|" * 6]
    for row in rows:
        ratio = f"{row.peer / row.ours:.1f}" if row.peer else "–"
        cells = [
            f"{row.ours:.2f} {row.unit}",
            *(f"{v:.2f}" if v else "–" for v in (row.floor, row.peer)),
        ]
        lines.append(
            f"| {row.figure} | {' | '.join(cells)} | {ratio} | {row.target} | "
            f"{'yes' if row.met else 'NO'} |"
        )
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-peer", action="store_true")
    parser.add_argument("--only", choices=SECTIONS, nargs="+")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peer = None if options.no_peer else install_peer()
    rows: list[Row] = []
    for name, section in SECTIONS.items():
        if name in (options.only or SECTIONS):
            print(f"measuring {name} …", file=sys.stderr)
            rows += section(peer)
    print(json.dumps([vars(row) for row in rows]) if options.json else table(rows), flush=True)
    for name in () if options.only or options.json else TABLES:
        print(f"\n{name}", flush=True)
        subprocess.run([sys.executable, HERE / name], env=environment(), check=False)
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores", file=sys.stderr)
    return 0 if all(row.met for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
