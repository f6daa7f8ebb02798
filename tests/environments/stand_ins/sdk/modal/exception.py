"""The errors of the Modal SDK that Hermes meets."""


class Error(Exception):
    pass


class AuthError(Error):
    pass


class NotFoundError(Error):
    pass
