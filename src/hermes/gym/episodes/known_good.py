"""Records the state of healthy hosts, as a watch would have done before the fault."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec.structs import replace

from hermes.declared.collectors.collect import CollectOptions, collect_state
from hermes.declared.store import StateStore
from hermes.environments.boxes.box import Box

COLLECT_TIMEOUT_S = 60.0


async def record_known_good(box: Box, hosts: Sequence[str], store: StateStore) -> None:
    """With the collector of production. Nothing else of the scenario is used than the names."""
    for host, name in enumerate(hosts):
        state = await collect_state(
            _script_runner(box, host), known=None, store=store, options=CollectOptions(host=name)
        )
        store.save(replace(state, source="known-good"))


def _script_runner(box: Box, host: int) -> Callable[[str, bytes], Awaitable[tuple[int, bytes]]]:
    async def run(script: str, stdin: bytes) -> tuple[int, bytes]:
        ran = await box.run(script, host=host, timeout=COLLECT_TIMEOUT_S, stdin=stdin)
        return ran.code, ran.output.encode()

    return run
