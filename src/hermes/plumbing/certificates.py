"""The certificate of our own server: how it is loaded, when it ends, and what is wrong with it."""

import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any


class CertificateError(Exception):
    """The certificate or its key cannot be used; the text says why and what to do."""


def load_server_certificate(certificate: str, key: str) -> ssl.SSLContext:
    """TLS 1.2 or newer, HTTP/1.1. Without a key file, the key is in the file of the certificate.

    Raises `CertificateError`.
    """
    files = [Path(each).expanduser() for each in (certificate, key) if each]
    if not certificate:
        raise CertificateError("web.key is set and web.cert is not: name both")
    for path in files:
        _check_readable(path)
    read_expiry(certificate)  # its errors are clearer than those of the next call
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(files[0], files[-1], password=_refuse_password)
    except ssl.SSLError as error:
        raise CertificateError(_key_problem(files[-1], error)) from error
    except OSError as error:
        raise CertificateError(f"{files[-1]} cannot be read: {error.strerror}") from error
    return context


def read_expiry(certificate: str) -> datetime:
    """When the first certificate of the file ends. Raises `CertificateError`."""
    path = Path(certificate).expanduser()
    _check_readable(path)
    library: Any = ssl
    try:
        found = library._ssl._test_decode_cert(str(path))  # the only reader of the library
        return datetime.fromtimestamp(ssl.cert_time_to_seconds(found["notAfter"]), UTC)
    except (ssl.SSLError, ValueError, KeyError, OSError) as error:
        raise CertificateError(
            f"{path} is no certificate in PEM form (-----BEGIN CERTIFICATE-----)"
        ) from error


def _check_readable(path: Path) -> None:
    try:
        with path.open("rb"):
            pass
    except OSError as error:
        raise CertificateError(f"{path} cannot be read: {error.strerror}") from error


def _refuse_password() -> str:
    raise ssl.SSLError("the key has a password")


def _key_problem(path: Path, error: ssl.SSLError) -> str:
    if getattr(error, "reason", "") == "KEY_VALUES_MISMATCH":
        return f"{path} is the key of another certificate"
    if "password" in str(error):
        return f"{path} has a password: store the key without one, readable for this user only"
    return f"{path} is no key in PEM form (-----BEGIN PRIVATE KEY-----)"
