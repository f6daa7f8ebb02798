"""Commands for practice and training: `hermes drill`, `demo`, `rl`, `batch` and `trajectories`."""
