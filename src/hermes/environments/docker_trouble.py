"""What docker and podman say when something is wrong, in words that tell what to do."""

import re
from pathlib import PurePath

from hermes.core.errors import PlaceFailed

NO_BASH = re.compile(r'"?bash"?:? (?:executable file )?(?:not found|no such file)', re.IGNORECASE)
_NO_DAEMON = re.compile(
    r"cannot connect to the docker daemon|connection refused|error during connect|"
    r"cannot connect to podman|connect: no such file",
    re.IGNORECASE,
)
_FORBIDDEN = re.compile(r"permission denied.*(?:daemon|\.sock)", re.IGNORECASE | re.DOTALL)
_NO_IMAGE = re.compile(
    r"unable to find image|pull access denied|no such image|short-name|manifest unknown|"
    r"error response from daemon: get ",
    re.IGNORECASE,
)


def daemon_trouble(program: str, complaint: str) -> PlaceFailed | None:
    """None when the daemon answered."""
    name = PurePath(program).name
    if _FORBIDDEN.search(complaint):
        return PlaceFailed(
            f"this account may not talk to {name}: join its group (`sudo usermod -aG docker $USER`,"
            f" then log in again), or set terminal.docker_program to podman. {name} said: "
            f"{complaint}"
        )
    if _NO_DAEMON.search(complaint):
        return PlaceFailed(
            f"the {name} daemon does not answer; start it (`sudo systemctl start docker`, or "
            f"`sudo dockerd`), or set terminal.docker_host to where it listens. {name} said: "
            f"{complaint}"
        )
    return None


def start_trouble(image: str, complaint: str) -> PlaceFailed:
    if NO_BASH.search(complaint):
        return PlaceFailed(
            f"the image {image} has no bash, and commands need it: choose another "
            "(terminal.docker_image), or add it to this one (`apk add bash`)"
        )
    if _NO_IMAGE.search(complaint):
        return PlaceFailed(
            f"there is no image {image} here and it could not be fetched; check "
            f"terminal.docker_image, or fetch it yourself (`docker pull {image}`): {complaint}"
        )
    return PlaceFailed(f"cannot start a container of {image}: {complaint}")
