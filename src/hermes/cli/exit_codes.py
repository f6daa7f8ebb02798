"""What an exit code says, for scripts that call `hermes`."""

from hermes.core.errors import (
    BudgetExceeded,
    EnvironmentFailed,
    HermesError,
    ModelError,
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

EXIT_CODE_BY_ERROR: tuple[tuple[type[HermesError], int], ...] = (
    (SettingsError, SETTINGS),
    (ModelError, MODEL),
    (EnvironmentFailed, PLACE),
    (StoreError, STORE),
    (PolicyDenied, DENIED),
    (BudgetExceeded, BUDGET),
    (HermesError, FAILED),
)


def exit_code_for(error: HermesError) -> int:
    return next(code for kind, code in EXIT_CODE_BY_ERROR if isinstance(error, kind))
