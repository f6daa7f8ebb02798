"""The file system of a copy of this machine, and the rights of the programs in it.

The overlay is mounted with the rights of the caller; the copy lives in a user namespace below, in
which user 0 has no rights outside. Imports only the standard library.
"""

import _socket
import os

from hermes.environments.boxes.backend import BoxPlan, HostPlan
from hermes.environments.boxes.copied_hosts import become_first_user, read_text, send_layers
from hermes.environments.confinement import kernel, messages, process_control, seccomp
from hermes.environments.confinement.copied_root import (
    CopiedRoot,
    CopyRequest,
    copy_run_folders,
    enter_copied_root,
    prepare_copied_root,
)
from hermes.environments.confinement.namespaces import CLONE_NEW_MOUNTS, CLONE_NEW_USERS

PROGRAM_FOLDER = "/run/host-copy"
"""First in the PATH of commands: our systemctl, journalctl and service, and supervisorctl."""
SUPERVISORCTL = b"""\
#!/bin/sh
# supervisord does not run in a copy: its programs are units of the copy.
while :; do case "$1" in -c|-s|-u|-p) shift 2 ;; -*) shift ;; *) break ;; esac; done
verb=$1; [ "$#" -gt 0 ] && shift
state() {
  pid=$(systemctl show -p MainPID --value "${1##*:}")
  case "$(systemctl is-active "${1##*:}")" in
    active) echo "$1 RUNNING pid $pid, uptime 0:00:01" ;;
    failed) echo "$1 FATAL Exited too quickly" ;;
    *) echo "$1 STOPPED" ;;
  esac
}
case "$verb" in
  status)
    names='s/^[^A-Za-z0-9]*\\([^ ]*\\)[.]service .*/\\1/p'
    [ "$#" -gt 0 ] || set -- $(systemctl list-units --all | sed -n "$names")
    for each; do state "$each"; done ;;
  start|stop|restart)
    for each; do systemctl "$verb" "${each##*:}" || exit 7; echo "$each: ok"; done ;;
  pid) for each; do systemctl show -p MainPID --value "${each##*:}"; done ;;
  reread|update|add|avail) systemctl daemon-reload ;;
  *) echo "*** Unknown syntax: $verb" >&2; exit 2 ;;
esac
"""
MAX_DATABASE_MB = 64
"""Databases in use up to this size are part of a copy."""
LAST_DESCRIPTOR = 0xFFFFFFFF


class MachineRoot:
    """See `box_init.HostRoot`."""

    def __init__(
        self,
        plan: BoxPlan,
        host: HostPlan,
        programs: tuple[tuple[str, bytes], ...],
        users: int,
    ) -> None:
        self._plan, self._host, self._programs, self._users = plan, host, programs, users
        self._copied = CopiedRoot("/")

    def prepare(self, link: _socket.socket) -> None:
        request = CopyRequest()
        request.mounts = read_text("/proc/self/mountinfo")
        request.disk_mb = self._host.disk_mb
        request.hidden = self._plan.hidden
        request.omitted = self._plan.omitted
        request.databases = self._plan.databases
        request.user_attributes = self._plan.own_users
        kernel.system_call("unshare", CLONE_NEW_MOUNTS)
        self._copied = prepare_copied_root(request)
        copy_run_folders(self._copied)
        self._install_programs()
        self._copied.left_out += [
            f"{path}: a database in use, more than {MAX_DATABASE_MB} MB"
            for path in self._plan.omitted
        ]
        send_layers(link, self._copied)
        kernel.system_call("setns", self._users, CLONE_NEW_USERS)
        become_first_user()

    def _install_programs(self) -> None:
        folder = f"root{PROGRAM_FOLDER}"
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103 - pathlib is slow to import
        os.chmod(folder, 0o755)  # noqa: PTH101 - see above
        supervised = any("SourcePath=/" in "\n".join(lines) for _, lines in self._host.services)
        more = (("supervisorctl", SUPERVISORCTL),) if supervised else ()
        for name, content in (*self._programs, *more):
            fd = os.open(f"{folder}/{name}", os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o755)
            os.write(fd, content)
            os.fchmod(fd, 0o755)
            os.close(fd)

    def enter(self) -> None:
        enter_copied_root(self._copied, self._host.name, read_only_proc=True)

    def give_up_rights(self, link: _socket.socket) -> None:
        messages.receive_message(link)  # box init has opened our namespaces
        kept = link.fileno()
        kernel.system_call("close_range", 3, kept - 1, 0)
        kernel.system_call("close_range", kept + 1, LAST_DESCRIPTOR, 0)
        give_up_rights(self._host)


def give_up_rights(host: HostPlan) -> None:
    """Called by every process of the copy before it runs a program."""
    process_control.make_undumpable()
    refusals = seccomp.build_copy_refusals(counted_memory=host.counted_memory)
    seccomp.install_filter(seccomp.compile_filter(refusals))
    process_control.keep_copy_capabilities()
