"""What an exit code says, for scripts that call `hermes`."""

from hermes.core.errors import (
    BudgetSpent,
    HermesError,
    ModelError,
    PlaceFailed,
    PolicyDenied,
    SettingsError,
    StoreError,
)

OK = 0
FAILED = 1
USAGE = 2
SETTINGS = 3
MODEL = 4
PLACE = 5
STORE = 6
DENIED = 7
BUDGET = 8
INTERRUPTED = 130

CODES: tuple[tuple[type[HermesError], int], ...] = (
    (SettingsError, SETTINGS),
    (ModelError, MODEL),
    (PlaceFailed, PLACE),
    (StoreError, STORE),
    (PolicyDenied, DENIED),
    (BudgetSpent, BUDGET),
    (HermesError, FAILED),
)


def code_of(error: HermesError) -> int:
    return next(code for kind, code in CODES if isinstance(error, kind))
