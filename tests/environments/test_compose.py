"""compose.yaml as Docker reads it, and its container in a real daemon.

The images that it names cannot be pulled here: the container is made of a local tree with the
Python of this system and the packages of these tests. Nothing builds the Dockerfile, and the
database is not started.
"""

import os
import pty
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import real_docker
import yaml

import hermes
from hermes.plumbing.http_service import HttpRefusal, HttpRequest
from hermes.web.browser_checks import check_host
from hermes.web.settings import WebSettings

ROOT = Path(__file__).parents[2]
SECRETS = {"POSTGRES_PASSWORD": "secret", "HERMES_WEB_TOKEN": "a-token"}
COMMAND = "#!/bin/python3\nimport sys\nfrom {module} import {name}\nsys.exit({name}())\n"


def compose(*words: str, **variables: str) -> subprocess.CompletedProcess[str]:
    program = shutil.which("docker-compose")
    if program is None:
        pytest.skip("not installed here: docker-compose; `make system` installs it")
    elsewhere = str(Path(__file__).parent)  # a developer may have a file .env
    command = [program, "--file", str(ROOT / "compose.yaml"), "--project-directory", elsewhere]
    env = {"PATH": os.environ["PATH"], "HOME": os.devnull} | variables
    return subprocess.run([*command, *words], capture_output=True, text=True, check=False, env=env)


@cache
def core() -> dict[str, Any]:
    done = compose("config", **SECRETS)
    assert done.returncode == 0, done.stderr
    service: dict[str, Any] = yaml.safe_load(done.stdout)["services"]["hermes-core"]
    return service


def test_compose_accepts_the_file_and_starts_what_the_documents_promise() -> None:
    service = core()
    assert service["container_name"] == "hermes-agent-core"
    assert service["ports"] == ["127.0.0.1:8080:8080/tcp"]
    assert service["user"] == "1000:1000"
    assert service["depends_on"] == {"hermes-db": {"condition": "service_healthy"}}


@pytest.mark.parametrize("missing", SECRETS)
def test_compose_says_which_secret_is_missing(missing: str) -> None:
    given = {name: value for name, value in SECRETS.items() if name != missing}
    done = compose("config", "--quiet", **given)
    assert done.returncode != 0
    assert f"put {missing} into .env" in done.stderr


def scripts() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "scripts"
    ]
    return found


def own_volumes(folder: Path) -> list[str]:
    """What the image lacks: the library of its Python, Hermes, its packages and its command."""
    library = Path(f"/usr/lib/python3.{sys.version_info.minor}")
    if not library.is_dir():
        pytest.skip(f"the Python of this system is not the 3.{sys.version_info.minor} of the tests")
    module, _, name = scripts()["hermes-cli"].partition(":")
    commands = folder / "commands"
    commands.mkdir()
    for command in ("hermes", "hermes-cli"):
        (commands / command).write_text(COMMAND.format(module=module, name=name))
        (commands / command).chmod(0o755)
    shared = next(Path("/usr/lib").glob("*-linux-gnu"))
    volumes = {
        library: str(library),
        shared: str(shared),
        commands: "/usr/local/bin",
        Path(hermes.__file__).parents[1]: "/opt/hermes",
        Path(yaml.__file__).parents[1]: "/opt/packages",
    }
    words = [word for k, v in volumes.items() for word in ("--volume", f"{k}:{v}:ro")]
    paths = {
        "PATH": "/usr/local/bin:/bin",
        "PYTHONPATH": "/opt/hermes:/opt/packages",
        "LD_LIBRARY_PATH": str(shared),
    }
    return [*words, *(word for k, v in paths.items() for word in ("--env", f"{k}={v}"))]


def run_words(service: dict[str, Any], folder: Path, **variables: str) -> list[str]:
    """As compose starts it, without its network: none can be made here."""
    data = folder / "data"
    data.mkdir()
    os.chown(data, 1000, 1000)
    left_out = {"MEMORY_DB_URL", *variables}
    given = {k: v for k, v in service["environment"].items() if k not in left_out} | variables
    words = ["run", "--network", "none", "--user", service["user"], "--name"]
    words += [service["container_name"], "--volume", f"{data}:/app/data", "--workdir", "/app/data"]
    words += [word for each in service["cap_drop"] for word in ("--cap-drop", each)]
    words += [word for each in service["security_opt"] for word in ("--security-opt", each)]
    words += [word for k, v in given.items() for word in ("--env", f"{k}={v}")]
    return [*words, *own_volumes(folder)]


def in_terminal(daemon: real_docker.Daemon, *words: str) -> tuple[int, str]:
    leader, follower = pty.openpty()
    command = ["docker", "--host", daemon.address, *words]
    with subprocess.Popen(command, stdin=follower, stdout=follower, stderr=follower) as process:
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            shown += piece
    os.close(leader)
    return process.returncode, shown.decode()


def test_the_container_answers_and_hermes_cli_works_in_it(tmp_path: Path) -> None:
    daemon, service = real_docker.daemon(), core()
    image = real_docker.image_with_python()
    daemon.docker(*run_words(service, tmp_path), "--detach", image, "hermes", "up")
    try:
        code, shown = in_terminal(
            daemon, "exec", "-it", "hermes-agent-core", "hermes-cli", "--version"
        )
        assert (code, hermes.__version__ in shown) == (0, True), shown
        probe = [word for word in service["healthcheck"]["test"] if word != "CMD"]
        wait = f"until {' '.join(map(quoted, probe))} 2>/dev/null; do sleep 0.2; done"
        answered = daemon.docker(
            "exec", "hermes-agent-core", "timeout", "120", "sh", "-c", wait, check=False
        )
        logs = daemon.docker("logs", "hermes-agent-core", check=False)
        assert answered.returncode == 0, (logs.stdout + logs.stderr).decode()
    finally:
        daemon.docker("rm", "--force", "hermes-agent-core", check=False)
    assert (tmp_path / "data/journal.db").stat().st_uid == 1000


def quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


def test_the_container_does_not_start_without_a_token(tmp_path: Path) -> None:
    daemon, service = real_docker.daemon(), core()
    words = run_words(service, tmp_path, HERMES_WEB_TOKEN="")
    image = real_docker.image_with_python()
    done = daemon.docker(*words, "--rm", image, "hermes", "up", check=False)
    assert done.returncode == 3
    assert b"there is no token" in done.stdout + done.stderr


def test_the_dashboard_is_shown_through_a_port_that_is_published_locally() -> None:
    request = HttpRequest(method="GET", path="/", headers={"host": "127.0.0.1:8080"})
    check_host(request, WebSettings(listen="0.0.0.0", published_locally=True))
    with pytest.raises(HttpRefusal):
        check_host(request, WebSettings(listen="0.0.0.0"))
    other = HttpRequest(method="GET", path="/", headers={"host": "evil.example:8080"})
    with pytest.raises(HttpRefusal):
        check_host(other, WebSettings(listen="0.0.0.0", published_locally=True))
