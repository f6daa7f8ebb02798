"""The exit codes of `hermes`."""

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
ENVIRONMENT = 5
STORE = 6
DENIED = 7
BUDGET = 8
INTERRUPTED = 130

EXIT_CODE_BY_ERROR: tuple[tuple[type[HermesError], int], ...] = (
    (SettingsError, SETTINGS),
    (ModelError, MODEL),
    (EnvironmentFailed, ENVIRONMENT),
    (StoreError, STORE),
    (PolicyDenied, DENIED),
    (BudgetExceeded, BUDGET),
    (HermesError, FAILED),
)


def exit_code_for(error: HermesError) -> int:
    return next(code for kind, code in EXIT_CODE_BY_ERROR if isinstance(error, kind))
