"""Every failure we expect, in one tree. The type says whether trying again can help.

HermesError
├── SettingsError            the operator must fix something; the message says what and where
├── ModelError               the provider failed
│   ├── TemporaryModelError  worth another try
│   │   ├── RateLimited      `wait` says how long the provider asked for
│   │   ├── Overloaded       5xx, "try later"
│   │   ├── Unreachable      no connection to the provider
│   │   ├── ModelTimedOut    no answer, or no next token, in time
│   │   └── MalformedReply   HTML, half a stream, broken JSON
│   └── PermanentModelError  asking again changes nothing
│       ├── BadKey           missing, wrong or revoked credentials
│       ├── OutOfCredit      the account cannot pay
│       ├── ContextTooLong   compress, then ask again
│       └── BadRequest       the provider understood us and said no
├── BudgetSpent              a limit of tokens or money stands before the next call
├── PlaceFailed              the environment failed, not the command run in it
├── ToolError                told to the model, which may try another way
├── PolicyDenied             a rule, or a person, said no
└── StoreError               the journal could not be read or written
    ├── StoreFull            no space: what was acknowledged is safe, this event was not written
    ├── StoreReadOnly        the file or its file system cannot be written
    ├── StoreCorrupt         damage was found; `hermes journal verify` says what can be saved
    └── StoreTooNew          written by a later Hermes; this one will not touch it

Code outside a boundary lets errors fly. Four places catch: the tool executor, the model retry,
one incident's task, one channel's task.
"""


class HermesError(Exception):
    """A failure we expect. Its text is written for the person who reads it."""


class SettingsError(HermesError):
    """The operator must fix something."""


class ModelError(HermesError):
    """The provider failed."""


class TemporaryModelError(ModelError):
    """Worth another try, here or at the next model of the chain."""


class RateLimited(TemporaryModelError):
    def __init__(self, message: str, *, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class ProviderOverloaded(TemporaryModelError):
    """The provider answers that it cannot answer now."""


class ProviderUnreachable(TemporaryModelError):
    """There is no connection to the provider: no network, a firewall, or nothing listens there."""


class ModelTimedOut(TemporaryModelError):
    """No answer, or no next token, in time."""


class MalformedReply(TemporaryModelError):
    """What came back is not what the dialect promises."""


class PermanentModelError(ModelError):
    """Asking the same model the same thing again changes nothing."""


class InvalidApiKey(PermanentModelError):
    """Missing, wrong or revoked credentials."""


class OutOfCredit(PermanentModelError):
    """The account cannot pay."""


class ContextTooLong(PermanentModelError):
    """The conversation does not fit into the model's window."""


class RequestRejected(PermanentModelError):
    """The provider understood us and said no."""


class BudgetExceeded(HermesError):
    """A limit of tokens or money stands before the next call."""


class EnvironmentFailed(HermesError):
    """The environment failed, not the command run in it."""


class ToolError(HermesError):
    """Told to the model, which may try another way."""


class PolicyDenied(HermesError):
    """A rule, or a person, said no."""


class StoreError(HermesError):
    """The journal could not be read or written."""


class StoreFull(StoreError):
    """No space left: nothing acknowledged is lost, this write did not happen."""


class StoreReadOnly(StoreError):
    """The file or its file system cannot be written; reading may still be possible."""


class StoreCorrupt(StoreError):
    """Damage was found in the file."""


class StoreTooNew(StoreError):
    """The file was written by a later Hermes."""
