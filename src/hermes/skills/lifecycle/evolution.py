"""Improves the texts of a skill with `gepa`: the model writes proposals, replays score them.

The library is synchronous and runs in a thread; model and replays run in the event loop. It is an
extra (`pip install hermes-oncall[evolve]`); import this module only when it is used.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import gepa
from anyio import from_thread, to_thread
from gepa.core.adapter import EvaluationBatch

from hermes.core.errors import ModelError
from hermes.core.messages import Message, Value
from hermes.core.protocols import Model
from hermes.skills.lifecycle.evaluation import ReplayCase

SEARCH_SEED = 7


class CaseScore(Value, kw_only=True, frozen=True):
    score: float
    """0 to 1."""
    feedback: str = ""
    """What happened, as input for the next proposal."""


ScoreCase = Callable[[dict[str, str], ReplayCase], Awaitable[CaseScore]]
"""Replays a case with these texts."""


async def evolve_texts(
    texts: Mapping[str, str],
    cases: Sequence[ReplayCase],
    score: ScoreCase,
    model: Model,
    *,
    max_replays: int,
) -> dict[str, str]:
    """The best texts found, or the same texts when none was better.

    `texts`: by the name of a part, such as `SKILL.md`. At most about `max_replays` replays are run.
    """
    adapter = _GepaAdapter(score)

    def write(prompt: Any) -> str:
        return from_thread.run(_complete, model, str(prompt))

    def search() -> dict[str, str]:
        found: Any = gepa.optimize(
            seed_candidate=dict(texts),
            trainset=list(cases),
            valset=list(cases),
            adapter=adapter,
            reflection_lm=write,
            max_metric_calls=max_replays,
            reflection_minibatch_size=min(3, len(cases)),
            skip_perfect_score=True,
            logger=_SilentLogger(),
            seed=SEARCH_SEED,
            raise_on_exception=True,
        )
        return dict(found.best_candidate)

    return await to_thread.run_sync(search)


class _GepaAdapter:
    """Implements the adapter that `gepa` needs: scores, and feedback."""

    propose_new_texts = None

    def __init__(self, score: ScoreCase) -> None:
        self._score = score

    def evaluate(
        self, batch: list[ReplayCase], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        scored = [from_thread.run(self._run_case, dict(candidate), case) for case in batch]
        traces = list(zip(batch, scored, strict=True))
        return EvaluationBatch(
            outputs=[one.feedback for one in scored],
            scores=[one.score for one in scored],
            trajectories=traces if capture_traces else None,
        )

    async def _run_case(self, texts: dict[str, str], case: ReplayCase) -> CaseScore:
        return await self._score(texts, case)

    def make_reflective_dataset(
        self,
        candidate: dict[str, str],
        eval_batch: Any,
        components_to_update: list[str],
    ) -> Mapping[str, Sequence[Mapping[str, Any]]]:
        rows = [
            {
                "Inputs": str(case),
                "Generated Outputs": f"score {one.score:.2f}",
                "Feedback": one.feedback,
            }
            for case, one in eval_batch.trajectories or ()
        ]
        return dict.fromkeys(components_to_update, rows)


class _SilentLogger:
    def log(self, message: str) -> None:
        """Progress is recorded in the journal only."""


async def _complete(model: Model, prompt: str) -> str:
    try:
        return (await model.complete([Message(role="user", text=prompt)])).message.text
    except ModelError as error:
        raise RuntimeError(f"the model failed: {error}") from error
