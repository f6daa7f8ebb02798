"""Settings of the gym: how boxes are opened."""

from typing import Literal

import msgspec


class GymSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    backend: Literal["box", "docker"] = "box"
    """box: namespaces of this machine (Linux). docker: the same boxes in a container."""
    docker_image: str = "hermes-gym"
    """With bash, coreutils, util-linux and /usr/bin/python3; docs/how-to/drills.md makes one."""
    docker_program: str = ""
    """docker or podman, by name or path; empty for docker."""
    docker_host: str = ""
    """Address of its daemon, such as unix:///run/docker.sock; empty for the usual one."""
    scenarios: tuple[str, ...] = ()
    """Folders that contain scenario folders of your own; `hermes drill list` lists them too."""
