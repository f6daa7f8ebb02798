"""Many small proposals in place of one: `gepa` searches, our model writes, our replays score.

The library is synchronous and lives in a thread; model and replays stay where they are. It is an
extra (`pip install hermes[evolve]`), and this module is loaded only when it is wanted.
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


class CaseScore(Value, kw_only=True, frozen=True):
    score: float
    """0 to 1."""
    feedback: str = ""
    """What happened, for whoever writes the next proposal."""


ScoreCase = Callable[[dict[str, str], ReplayCase], Awaitable[CaseScore]]
"""Plays a case with these texts."""


async def evolve_texts(
    texts: Mapping[str, str],
    cases: Sequence[ReplayCase],
    score: ScoreCase,
    model: Model,
    *,
    max_replays: int = 24,
    seed: int = 7,
) -> dict[str, str]:
    """The best texts that were found; the same ones when nothing was better.

    `texts` by the name of a part, such as `SKILL.md`. At most about `plays` cases are played.
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
            seed=seed,
            raise_on_exception=True,
        )
        return dict(found.best_candidate)

    return await to_thread.run_sync(search)


class _GepaAdapter:
    """What the library asks for: scores, and what to learn from them."""

    propose_new_texts = None

    def __init__(self, score: ScoreCase) -> None:
        self._score = score

    def evaluate(
        self, batch: list[ReplayCase], candidate: dict[str, str], capture_traces: bool = False
    ) -> Any:
        scored = [from_thread.run(self._play, dict(candidate), case) for case in batch]
        traces = [(case, one) for case, one in zip(batch, scored, strict=True)]
        return EvaluationBatch(
            outputs=[one.feedback for one in scored],
            scores=[one.score for one in scored],
            trajectories=traces if capture_traces else None,
        )

    async def _play(self, texts: dict[str, str], case: ReplayCase) -> CaseScore:
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
        """Progress is in the journal, not on the terminal."""


async def _complete(model: Model, prompt: str) -> str:
    try:
        return (await model.complete([Message(role="user", text=prompt)])).message.text
    except ModelError as error:
        raise RuntimeError(f"the model failed: {error}") from error
