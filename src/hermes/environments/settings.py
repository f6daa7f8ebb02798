"""Settings of the environments in which commands run."""

import msgspec


class TerminalSettings(msgspec.Struct, kw_only=True, frozen=True, forbid_unknown_fields=True):
    """The section `terminal` of the configuration."""

    backend: str = "local"
    """Where commands run: local, sandbox, docker, ssh, singularity, modal, daytona, kubernetes."""
    cwd: str = "."
    """First working folder; "." is the current one (local), or the place's own default."""
    timeout: float = 120.0
    """Seconds a command may take when the agent does not say."""
    max_timeout: float = 600.0
    """The most the agent may ask for; longer work belongs into the background."""
    pass_variables: tuple[str, ...] = ()
    """Further variables that commands may see; `AWS_*` never matches what looks like a secret."""

    memory_mb: int = 2048
    """Memory of a sandbox or container."""
    processes: int = 256
    """Processes at once in a sandbox or container."""
    cpus: float = 2.0
    """Processors of a container."""
    cpu_seconds: int = 600
    """Processor time of one command in a sandbox."""
    file_mb: int = 1024
    """Largest file a sandbox may write; also the size of its /tmp."""
    total_mb: int = 4096
    """What the files that a sandbox writes to its folders may take up together; 0 is no limit."""
    network: bool = False
    """Whether a sandbox may reach the network."""
    writable: tuple[str, ...] = ()
    """Folders a sandbox may write to, besides its working folder."""
    readable: tuple[str, ...] = ()
    """Folders a sandbox may read, besides the system's programs and its working folder."""

    docker_program: str = ""
    """docker or podman; empty takes the first that is there."""
    docker_host: str = ""
    """Where the daemon listens, `unix:///…` or `tcp://…`; empty is the program's own default."""
    docker_image: str = "debian:stable-slim"
    """Image of the container; it must have bash."""
    docker_network: bool = True
    """Whether a container may reach the network."""
    docker_volumes: tuple[str, ...] = ()
    """Mounts as `host:container[:ro]`."""
    singularity_image: str = "docker://debian:stable-slim"
    """Image of the Singularity or Apptainer instance."""
    modal_image: str = "debian:stable-slim"
    """Image of the Modal sandbox."""
    daytona_image: str = "debian:stable-slim"
    """Image of the Daytona workspace."""
    daytona_url: str = ""
    """Address of the Daytona API; empty is its own cloud."""
    kubernetes_context: str = ""
    """Context of the kubeconfig; empty is the current one."""
    kubernetes_namespace: str = "default"
    """Namespace of the pod."""
    kubernetes_pod: str = ""
    """An existing pod to run in; empty starts one from `kubernetes_image`."""
    kubernetes_container: str = ""
    """Container of that pod; empty is its first."""
    kubernetes_image: str = "debian:stable-slim"
    """Image of the pod that is started."""

    ssh_host: str = ""
    """Machine to run on (TERMINAL_SSH_HOST)."""
    ssh_user: str = ""
    """Account there (TERMINAL_SSH_USER)."""
    ssh_key: str = ""
    """Path of the private key (TERMINAL_SSH_KEY); empty asks the agent and the defaults."""
    ssh_port: int = 22
    """Port of the ssh server."""

    max_processes: int = 64
    """Background processes at once."""
    max_process_age: float = 24 * 3600.0
    """Seconds after which a background process is ended."""
    process_buffer_kb: int = 200
    """How much of a background process's last output is kept."""
    max_wait: float = 300.0
    """Seconds one wait for a background process may take."""
    min_check_interval: float = 30.0
    """Least seconds between two reports about a running background process."""
    watch_interval: float = 10.0
    """Least seconds between two notices of one watched pattern."""
