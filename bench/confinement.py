"""What confinement costs, and whether ordinary reading survives it.

usage: python bench/confinement.py [--runs N] [--reads [--limit N]]
Without --reads: a warm confined command against `bash -c` and against an unconfined one, and a
whole tool turn with and without. With --reads: every text of the benign corpora that the careful
set allows and whose programs are installed is run twice without confinement and once with; what
then ends otherwise, or prints otherwise although it printed the same twice, three times in a row,
is listed.
"""

import argparse
import json
import os
import re
import shutil
import statistics
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import anyio
from msgspec.structs import replace

from hermes.core.actions import ConfinementProfile
from hermes.core.bus import Bus
from hermes.core.messages import ToolCall
from hermes.core.protocols import CommandResult, ToolContext
from hermes.environments.local import LocalEnvironment
from hermes.memory.artifacts import FileArtifacts
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.policy.actions.reader import ActionContext, ActionReader, file_digest, resolve_symlinks
from hermes.policy.command_analysis import analyse_command
from hermes.policy.decide import DocumentPolicy
from hermes.policy.examination import action_from_description, parse_description
from hermes.policy.loading import compile_rule_set, load_set
from hermes.policy.settings import PolicySettings
from hermes.tools.executor import Executor
from hermes.tools.terminal import terminal

CORPORA = Path(__file__).parent / "corpora" / "policy"
TIMEOUT_S = 6.0
TRIES = 3
UNSTEADY = "unsteady"
PAUSE_S = 0.1
"""Between two commands: no model answers faster."""
VARIABLES = {"PATH": os.environ["PATH"], "HOME": "/root", "LANG": "C.UTF-8", "TERM": "dumb"}
SHOWS_ITS_SURROUNDINGS = re.compile(r"\b(?:env|printenv|set|export|declare|compgen)\b|/proc/self")


def careful(folder: str) -> DocumentPolicy:
    book = compile_rule_set(load_set("careful").documents, PolicySettings(), "/root")
    reader = ActionReader(analyse_command, lookup=resolve_symlinks, digest=file_digest)
    return DocumentPolicy(book, reader, context_of=lambda action: ActionContext(cwd=folder))


async def measure(runs: int) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as name:
        async with LocalEnvironment(Path(name), VARIABLES) as place:
            support = await place.kernel_support()
            if support.reason:
                raise SystemExit(f"nothing to measure: {support.reason}")

            async def confined() -> None:
                async with place.confined(ConfinementProfile()) as within:
                    await within.run("true")

            async def unconfined() -> None:
                await place.run("true")

            async def bare() -> None:
                subprocess.run(["bash", "-c", "true"], check=True)  # noqa: ASYNC221

            turns = [
                (f"tool turn, {word}", turn(place, name, held=held))
                for word, held in (("unconfined", False), ("confined", True))
            ]
            kinds = [("bash -c", bare), ("unconfined", unconfined), ("confined", confined), *turns]
            return await compare(kinds, runs)


def turn(place: LocalEnvironment, folder: str, *, held: bool) -> Callable[[], Awaitable[None]]:
    policy = careful(folder)
    judge = policy.decide
    if not held:
        policy.decide = lambda action: replace(judge(action), enforced="")  # type: ignore[method-assign]
    bus = Bus(InMemoryJournal())

    async def nobody(*_: object) -> object:
        raise AssertionError("nothing here asks")

    executor = Executor({"terminal": terminal}, policy, nobody, bus)  # type: ignore[arg-type]
    context = ToolContext("run", place, bus.publish, nobody, FileArtifacts(Path(folder)))  # type: ignore[arg-type]

    async def once() -> None:
        result = await executor.execute(ToolCall("c", "terminal", {"command": "true"}), context)
        assert result.status == "ok", result

    return once


async def compare(
    kinds: list[tuple[str, Callable[[], Awaitable[None]]]], runs: int
) -> dict[str, float]:
    """Lower quartiles in milliseconds, taken in turn: a busy moment hits all of them alike."""
    taken: dict[str, list[float]] = {name: [] for name, _ in kinds}
    for number in range(runs + 3):
        for name, kind in kinds:
            await anyio.sleep(PAUSE_S)
            started = time.perf_counter()
            await kind()
            if number >= 3:
                taken[name].append((time.perf_counter() - started) * 1000)
    return {name: round(statistics.quantiles(each)[0], 2) for name, each in taken.items()}


def texts() -> list[str]:
    files = [CORPORA / "ordinary.txt", CORPORA / "lookalikes.txt"]
    files += sorted((CORPORA / "blind").glob("*/*ordinary*"))
    found: dict[str, None] = {}
    for file in files:
        for line in file.read_text("utf-8").splitlines():
            text = line.strip().replace("⏎", "\n")
            if file.suffix == ".jsonl" and text:
                text = json.loads(text)["command"]
            if text and not text.startswith("#"):
                found.setdefault(text)
    return list(found)


def runnable(policy: DocumentPolicy, text: str) -> ConfinementProfile | None:
    """The profile of a text that is allowed and whose programs are here."""
    action = action_from_description(parse_description({"command": text}))
    deed, verdict = policy.read_effects(action), policy.decide(action)
    programs = {Path(step.program).name for step in deed.steps if step.program}
    plain = verdict.verdict == "allow" and deed.is_read_only
    here = all(shutil.which(each) or each in BUILTINS for each in programs)
    return verdict.profile if plain and here and verdict.profile else None


BUILTINS = frozenset(
    subprocess.run(
        ["bash", "-c", "compgen -bk"], capture_output=True, text=True, check=True
    ).stdout.split()
)


async def reads(limit: int) -> int:
    broken = tried = unsteady = 0
    with tempfile.TemporaryDirectory() as name:
        (Path(name) / "app.log").write_text("one ERROR\ntwo\n")
        policy = careful(name)
        async with LocalEnvironment(Path(name), VARIABLES) as place:
            await place.kernel_support()
            for text in texts()[: limit or None]:
                profile = runnable(policy, text)
                if profile is None or profile.unrestricted:
                    continue
                tried += 1
                difference = await differs(place, text, profile)
                unsteady += difference == UNSTEADY
                if difference and difference != UNSTEADY:
                    broken += 1
                    print(f"--- {text}\n{difference}", flush=True)
    print(
        f"{tried} ordinary reads run with and without confinement, {broken} differ; {unsteady} "
        "could not be compared: without confinement they ended otherwise each time, or too late"
    )
    return broken


async def differs(place: LocalEnvironment, text: str, profile: ConfinementProfile) -> str:
    """What is different under confinement each time it is tried; empty when it is nothing."""
    found = ""
    for _ in range(TRIES):
        found = await differs_once(place, text, profile)
        if not found:
            break
    return found


async def differs_once(place: LocalEnvironment, text: str, profile: ConfinementProfile) -> str:
    inner = f"( {text}\n)"
    first = await place.run(inner, timeout=TIMEOUT_S)
    if first.timed_out:
        return UNSTEADY
    async with place.confined(profile) as within:
        held = await within.run(inner, timeout=3 * TIMEOUT_S)
        blocked = [str(each) for each in within.collect()]
    second = await place.run(inner, timeout=TIMEOUT_S)
    if second.timed_out or first.exit_code != second.exit_code:
        return UNSTEADY
    first, second, held = (masked(each) for each in (first, second, held))
    same_words = first.output == second.output and not SHOWS_ITS_SURROUNDINGS.search(text)
    if held.exit_code != first.exit_code:
        return f"exit {first.exit_code}, confined {held.exit_code}; {blocked}\n{tail(held)}"
    if same_words and held.output != first.output:
        return f"other words; {blocked}\n{tail(first)}\nconfined:\n{tail(held)}"
    return ""


def masked(result: CommandResult) -> CommandResult:
    return replace(result, output=re.sub(r"\d+ ms|pid \d+|\d+#\d+|\d\.\d{6}\b", "…", result.output))


def tail(result: CommandResult) -> str:
    return result.output[-300:]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--reads", action="store_true")
    parser.add_argument("--limit", type=int, default=0)
    asked = parser.parse_args()
    if asked.reads:
        raise SystemExit(1 if anyio.run(reads, asked.limit) else 0)
    found = anyio.run(measure, asked.runs)
    found["confined beyond bash -c"] = round(found["confined"] - found["bash -c"], 2)
    turns = found["tool turn, confined"] - found["tool turn, unconfined"]
    found["growth of a tool turn"] = round(turns, 2)
    for name, value in found.items():
        print(f"{name:28} {value:8.2f} ms")


if __name__ == "__main__":
    main()
