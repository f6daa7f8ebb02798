"""Root causes by experiment, without playbooks and without a model, on the gym's own scenarios.

usage: python bench/experiments.py [--seeds N] [--first N] [--jobs N] [--without-state]
                                   [--changes] [--json FILE] [NAME ...]

`--changes`: only the scenarios that are caused by a change in files, units or settings.
"""

CAUSED_BY_A_CHANGE = (
    "backlog-slow-consumer",
    "bad-deploy-rollback",
    "cascade-remote-symptom",
    "certificate-expired",
    "config-typo-after-edit",
    "cpu-runaway",
    "db-connections-exhausted",
    "db-deadlock",
    "db-idle-in-transaction",
    "db-password-rotated",
    "disk-full-runaway-log",
    "dns-wrong",
    "drift-from-git",
    "expired-token",
    "full-dev-shm",
    "hostile-log-line",
    "look-alike-other-cause",
    "memory-leak",
    "memory-limit-too-low",
    "missing-index",
    "missing-module",
    "missing-variable",
    "network-partition",
    "ownership-drift",
    "port-taken",
    "red-herring-deploy",
    "redis-out-of-memory",
    "scaled-to-zero",
    "staging-settings-reloaded",
    "unit-failed",
    "wrong-command",
    "wrong-upstream",
)
"""Listed before the first experiment was run on any of them."""
OTHER_INCIDENTS = (
    "corrupted-data-with-backup",
    "cron-failing-silently",
    "deleted-but-open-file",
    "hung-worker",
    "needs-approval",
    "service-crashed",
    "two-faults-at-once",
)
"""Caused by damaged data, records, locks or memory: no file, unit or setting differs that a person
or a program was meant to change."""
