"""The server with a certificate: requests are encrypted, and what is wrong with it is said."""

import asyncio
import ssl
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import anyio
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from msgspec.structs import replace

from hermes.cli.admin.doctor import check_certificate
from hermes.core.bus import Bus
from hermes.core.errors import SettingsError
from hermes.memory.journal.in_memory import InMemoryJournal
from hermes.plumbing.http_service import HttpRefusal, HttpRequest
from hermes.settings.load import load
from hermes.web.alert_server import serve_alerts
from hermes.web.browser_checks import check_host, check_origin
from hermes.web.settings import WebSettings

pytestmark = pytest.mark.anyio

PEM = serialization.Encoding.PEM
PKCS8 = serialization.PrivateFormat.PKCS8


def write_certificate(folder: Path, *, days: int = 90, password: str = "") -> tuple[str, str]:
    """Files of a certificate for localhost that ends in so many days, and of its key."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=100))
        .not_valid_after(now + timedelta(days=days, hours=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(key, hashes.SHA256())
    )
    hidden = (
        serialization.BestAvailableEncryption(password.encode())
        if password
        else serialization.NoEncryption()
    )
    files = folder / f"cert{days}.pem", folder / f"key{days}{password}.pem"
    files[0].write_bytes(certificate.public_bytes(PEM))
    files[1].write_bytes(key.private_bytes(PEM, PKCS8, hidden))
    return str(files[0]), str(files[1])


async def test_requests_are_encrypted(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    settings = WebSettings(port=0, cert=cert, key=key)
    async with anyio.create_task_group() as group:
        address = await group.start(partial(serve_alerts, Bus(InMemoryJournal()), settings))
        assert address.startswith("https://127.0.0.1:")
        port = int(address.rpartition(":")[2])
        trusted = ssl.create_default_context(cafile=cert)
        trusted.set_alpn_protocols(["h2", "http/1.1"])
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", port, ssl=trusted, server_hostname="localhost"
        )
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        answer = await reader.read()
        writer.close()
        plain_reader, plain_writer = await asyncio.open_connection("127.0.0.1", port)
        plain_writer.write(b"GET /readyz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        refused = await plain_reader.read()
        plain_writer.close()
        group.cancel_scope.cancel()
    assert answer.startswith(b"HTTP/1.1 200") and b'"ok":true' in answer
    assert b"HTTP" not in refused


def test_the_dashboard_is_shown_under_its_name_with_a_certificate_alone() -> None:
    head = {"host": "hermes.example.org:8080", "origin": "https://hermes.example.org:8080"}
    request = HttpRequest(method="POST", path="/", headers=head)
    plain = WebSettings(listen="0.0.0.0", hosts=("hermes.example.org",))
    encrypted = replace(plain, cert="cert.pem")
    check_host(request, encrypted)
    check_origin(request, encrypted)
    for check in (check_host, check_origin):
        with pytest.raises(HttpRefusal):
            check(request, plain)


async def test_what_is_wrong_with_a_certificate_is_said(tmp_path: Path) -> None:
    cert, key = write_certificate(tmp_path)
    _, other = write_certificate(tmp_path, days=91)
    with_password = write_certificate(tmp_path, days=92, password="secret")
    (tmp_path / "text").write_text("no certificate")
    text, gone = str(tmp_path / "text"), str(tmp_path / "gone")
    wrong = {
        (gone, key): "cannot be read: No such file",
        (cert, gone): "cannot be read: No such file",
        (text, key): "no certificate in PEM form",
        (cert, text): "no key in PEM form",
        (cert, ""): "no key in PEM form",
        (cert, other): "the key of another certificate",
        with_password: "has a password",
        ("", key): "name both",
    }
    for (chosen, its_key), words in wrong.items():
        settings = WebSettings(port=0, cert=chosen, key=its_key)
        with pytest.raises(SettingsError, match=words):
            await serve_alerts(Bus(InMemoryJournal()), settings)


@pytest.mark.parametrize(
    ("days", "state", "words"),
    [(90, "ok", "is valid until"), (5, "warning", "5 days"), (-3, "problem", "has expired")],
)
def test_the_doctor_says_when_it_ends(tmp_path: Path, days: int, state: str, words: str) -> None:
    cert, key = write_certificate(tmp_path, days=days)
    overrides = {"web.cert": cert, "web.key": key}
    (found,) = check_certificate(load(home=tmp_path, variables={}, overrides=overrides))
    assert found.state == state
    assert words in found.text


def test_the_doctor_says_nothing_without_a_certificate(tmp_path: Path) -> None:
    assert list(check_certificate(load(home=tmp_path, variables={}))) == []
