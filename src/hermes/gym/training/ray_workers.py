"""A batch on Ray: each prompt is a task on some machine of the cluster. Loaded when asked for.

The home, and with it the journal, must be reachable from every machine: a shared folder, or a
store that is a database.
"""

from collections.abc import Callable
from typing import Any

import ray
from ray.exceptions import RayError

from hermes.core.errors import HermesError
from hermes.gym.training.batch import BatchPrompt, TrajectoryLines

RayResult = tuple[TrajectoryLines, str]
"""The lines, or why there are none: an error's type need not survive the road."""
CPU_SHARE = 0.25
"""Of a core: a prompt waits for its model most of the time."""


def run_on_ray(run: Callable[[BatchPrompt], RayResult]) -> Callable[[BatchPrompt], TrajectoryLines]:
    """Joins the cluster of RAY_ADDRESS, or makes one of this machine."""
    ray.init(ignore_reinit_error=True, log_to_driver=False, include_dashboard=False)
    remote: Any = ray.remote(num_cpus=CPU_SHARE, max_retries=2)(run)

    def placed(job: BatchPrompt) -> TrajectoryLines:
        try:
            lines, error = ray.get(remote.remote(job))
        except RayError as broken:
            raise HermesError(f"Ray lost the task: {broken}") from broken
        if error:
            raise HermesError(error)
        made: TrajectoryLines = lines
        return made

    return placed
