"""Which ports the configuration of a host gives to its services, also while these are down."""

from pathlib import Path

import pytest

from hermes.sre.probes.configured_ports import find_configured_port


@pytest.mark.parametrize(
    ("name", "line", "named"),
    [
        ("shop/shop.env", "PORT=8080", True),
        ("supervisor/conf.d/api.conf", "command=/opt/api --port 8080", True),
        ("nginx/sites-enabled/shop", "  proxy_pass http://127.0.0.1:8080/;", True),
        ("nginx/nginx.conf", "    listen [::]:8080 ssl;", True),
        ("systemd/system/web.socket", "ListenStream=8080", True),
        ("app/app.yaml", "server: {address: '0.0.0.0:8080'}", True),
        ("redis/redis.conf", "port 18080", False),
        ("redis/redis.conf", "# port 8080", False),
        ("app/app.json", '{"port": 80801, "limit": 8080}', False),
        ("nginx/conf.d/hermes.conf", "proxy_pass http://127.0.0.1:8080/; # hermes", False),
        ("shop/notes.txt", "port 8080", False),
    ],
)
def test_a_port_that_a_file_gives_to_a_service_is_found(
    tmp_path: Path, name: str, line: str, named: bool
) -> None:
    file = tmp_path / name
    file.parent.mkdir(parents=True)
    file.write_text(f"first = 1\n{line}\n")
    assert find_configured_port(8080, [tmp_path]) == (str(file) if named else "")
