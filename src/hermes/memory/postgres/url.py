"""PostgreSQL URLs: one to connect with, and one without the password. Needs no driver."""

from urllib.parse import urlsplit

from hermes.core.errors import SettingsError

URL_SCHEMES = ("postgresql", "postgres")


def is_postgres_url(text: str) -> bool:
    return text.partition("://")[0].partition("+")[0] in URL_SCHEMES and "://" in text


def libpq_url(text: str) -> str:
    """The URL as libpq expects it; other tools write the driver's name into the scheme."""
    if not is_postgres_url(text):
        raise SettingsError(
            "store.url (MEMORY_DB_URL) is not a PostgreSQL URL; it looks like "
            "postgresql://user:password@host:5432/database"
        )
    return "postgresql://" + text.partition("://")[2]


def without_password(url: str) -> str:
    """Without password and options."""
    rest = url.partition("://")[2].partition("?")[0]
    login, at, location = rest.rpartition("@")
    return f"postgresql://{login.partition(':')[0]}{at}{location}"


def host_and_port(url: str) -> str:
    """Host and port for a message."""
    return urlsplit(without_password(url)).netloc.rpartition("@")[2] or "the local socket"
