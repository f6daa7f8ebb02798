"""Every failure we expect, in one tree. The type says whether trying again can help.

HermesError
├── SettingsError               the operator must fix something; the message says what and where
│   ├── PluginError             a plug-in of an outside author cannot be used
│   └── ScheduleError           a schedule, or another part of a job, is refused
│       └── SchedulePhraseError the words are no schedule; it says what to write instead
├── ModelError                  the provider failed
│   ├── TemporaryModelError     a retry can help
│   │   ├── RateLimited         `wait` is the delay that the provider asked for
│   │   ├── ProviderOverloaded  5xx, "try later"
│   │   ├── ProviderUnreachable no connection to the provider
│   │   ├── ModelTimedOut       no answer, or no next token, in time
│   │   └── MalformedReply      HTML, half a stream, broken JSON
│   └── PermanentModelError     a retry changes nothing
│       ├── InvalidApiKey       missing, wrong or revoked credentials
│       ├── OutOfCredit         the account cannot pay
│       ├── ContextTooLong      compress, then ask again
│       │   └── PicturesRejected leave the pictures out, then ask again
│       └── RequestRejected     the provider understood the request and rejected it
├── BudgetExceeded              a limit of tokens or money does not allow the next call
├── EnvironmentFailed           the environment failed, not the command run in it
├── ToolError                   reported to the model, which may try another way
├── PolicyDenied                a rule, or a person, refused
└── StoreError                  the journal could not be read or written
    ├── StoreFull               no space: acknowledged events are safe, this one was not written
    ├── StoreReadOnly           the file or its file system cannot be written
    ├── StoreCorrupt            damage was found; `hermes journal verify` says what can be saved
    └── StoreTooNew             written by a later Hermes; this one does not change it

Errors are caught at four boundaries only: the tool executor, the model retry, the task of an
incident, the task of a channel.
"""


class HermesError(Exception):
    """A failure we expect. Its text is written for the person who reads it."""


class SettingsError(HermesError):
    """The operator must fix something."""


class PluginError(SettingsError):
    """A plug-in of an outside author exists but cannot be used."""


class ScheduleError(SettingsError):
    """A schedule was not understood, or a job cannot be kept as it is given."""


class SchedulePhraseError(ScheduleError):
    """The words are no schedule that can be used; the message says what to write instead."""


class ModelError(HermesError):
    """The provider failed."""


class TemporaryModelError(ModelError):
    """Worth another try, here or at the next model of the chain."""


class RateLimited(TemporaryModelError):
    def __init__(self, message: str, *, wait: float | None = None) -> None:
        super().__init__(message)
        self.wait = wait


class ProviderOverloaded(TemporaryModelError):
    """The provider reports that it cannot answer now."""


class ProviderUnreachable(TemporaryModelError):
    """There is no connection to the provider: no network, a firewall, or nothing listens there."""


class ModelTimedOut(TemporaryModelError):
    """The model gave no answer, or no next token, in time."""


class MalformedReply(TemporaryModelError):
    """The reply does not have the format that the dialect promises."""


class PermanentModelError(ModelError):
    """Sending the same request to the same model again changes nothing."""


class InvalidApiKey(PermanentModelError):
    """Missing, wrong or revoked credentials."""


class OutOfCredit(PermanentModelError):
    """The account cannot pay."""


class ContextTooLong(PermanentModelError):
    """The conversation does not fit into the model's window."""


class PicturesRejected(ContextTooLong):
    """The provider does not take the pictures: too large, too many, or the model sees none."""


class RequestRejected(PermanentModelError):
    """The provider understood the request and rejected it."""


class BudgetExceeded(HermesError):
    """A limit of tokens or money does not allow the next call."""


class EnvironmentFailed(HermesError):
    """The environment failed, not the command run in it."""


PlaceFailed = EnvironmentFailed
"""The earlier name, which plug-ins may still import."""


class ToolError(HermesError):
    """Reported to the model, which may try another way."""


class PolicyDenied(HermesError):
    """A rule, or a person, refused."""


class StoreError(HermesError):
    """The journal could not be read or written."""


class StoreFull(StoreError):
    """No space is left. Acknowledged events are safe; this write did not happen."""


class StoreReadOnly(StoreError):
    """The file or its file system cannot be written; reading may still be possible."""


class StoreCorrupt(StoreError):
    """Damage was found in the file."""


class StoreTooNew(StoreError):
    """The file was written by a later Hermes."""


def innermost_error(error: BaseException) -> BaseException:
    """The failure inside nested exception groups; an interrupt or a `StoreError` comes first."""
    while isinstance(error, BaseExceptionGroup):
        important = error.subgroup(KeyboardInterrupt) or error.subgroup(StoreError)
        error = (important or error).exceptions[0]
    return error


class DeliveryError(HermesError):
    """A delivery failed. `permanent`: a retry would fail, too."""

    def __init__(
        self,
        message: str,
        *,
        permanent: bool = False,
        may_have_arrived: bool = False,
        retry_after_s: float = 0.0,
    ) -> None:
        super().__init__(message)
        self.permanent, self.may_have_arrived = permanent, may_have_arrived
        self.retry_after_s = retry_after_s
        """What the platform asks for; 0 when it says nothing."""


class ChannelFailed(HermesError):
    """The connection to a platform ended. `permanent`: only a person can correct the reason."""

    def __init__(self, message: str, *, permanent: bool = False) -> None:
        super().__init__(message)
        self.permanent = permanent
