"""Runs the prompts of a batch as tasks on a Ray cluster. An optional extra.

Every machine must reach the home directory, and with it the journal: a shared folder, or a
database as the store.
"""

from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from hermes.core.errors import HermesError
from hermes.gym.training.batch import BatchPrompt, TrajectoryLines

RayResult = tuple[TrajectoryLines, str]
"""The lines, or the error as text: its type may not be known on the other side."""
CPU_SHARE = 0.25
"""Of a core: a prompt waits for its model most of the time."""


def run_on_ray(run: Callable[[BatchPrompt], RayResult]) -> Callable[[BatchPrompt], TrajectoryLines]:
    """Joins the cluster of RAY_ADDRESS, or starts one on this machine."""
    ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    remote: Any = ray.remote(num_cpus=CPU_SHARE, max_retries=2)(run)

    def run_remotely(job: BatchPrompt) -> TrajectoryLines:
        try:
            lines, error = ray.get(remote.remote(job))
        except RayError as broken:
            raise HermesError(f"Ray lost the task: {broken}") from broken
        if error:
            raise HermesError(error)
        result: TrajectoryLines = lines
        return result

    return run_remotely
