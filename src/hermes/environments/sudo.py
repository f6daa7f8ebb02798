"""Answers the password question of sudo in an environment.

A helper program asks for the password, and a process that Hermes keeps running there answers.
"""

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from shlex import quote

import anyio

from hermes.core.errors import HermesError
from hermes.core.protocols import BackgroundProcess, CommandResult

AGENT_FOLDER_MARK = "hermes-desk:"
"""Precedes the folder through which the helper and the answering process communicate."""

# In the session's shell, so that it keeps the two variables. Folders are tried until one allows
# to execute programs.
SET_UP_SCRIPT = r"""
__hermes_desk= __hermes_sudo=
while IFS= builtin read -r __hermes_sudo; do
  [[ $__hermes_sudo == */.hermes-sudo-*/bin/sudo ]] || break
done < <(builtin type -aP sudo)
[[ -z $__hermes_sudo ]] || for __hermes_at in "${TMPDIR:-/tmp}" "$HOME"; do
  __hermes_desk=$(umask 077; command -p mktemp -d "$__hermes_at/.hermes-sudo-XXXXXXXX") || continue
  command -p mkdir "$__hermes_desk/bin"
  command -p mkfifo -m 600 "$__hermes_desk/ask"
  builtin printf '#!%s\ndesk=%q\n%s\n' "$BASH" "$__hermes_desk" %HELPER% >| "$__hermes_desk/askpass"
  builtin printf '#!%s\nreal=%q\n%s\n' "$BASH" "$__hermes_sudo" %SHIM% >| "$__hermes_desk/bin/sudo"
  command -p chmod 700 "$__hermes_desk/askpass" "$__hermes_desk/bin/sudo"
  "$__hermes_desk/askpass" --try && break
  command -p rm -rf -- "$__hermes_desk"
  __hermes_desk=
done 2>/dev/null
if [[ -n $__hermes_desk ]]; then
  __hermes_rest= __hermes_part=
  IFS=: builtin read -ra __hermes_part <<< "$PATH"
  for __hermes_at in "${__hermes_part[@]}"; do
    [[ $__hermes_at == */.hermes-sudo-*/bin ]] || __hermes_rest+=:$__hermes_at
  done
  builtin export SUDO_ASKPASS=$__hermes_desk/askpass PATH=$__hermes_desk/bin$__hermes_rest
  builtin printf 'hermes-desk:%s\n' "$__hermes_desk"
fi
"""

_ASKPASS_SCRIPT = r"""
[[ $1 == --try ]] && exit 0
cd "$desk" && command -p mkfifo -m 600 "reply.$$" || exit 1
exec 3<>"reply.$$" 4<>ask
printf '%s\n' "$$" >&4
answer=; IFS= read -r -t 15 answer <&3
command -p rm -f "reply.$$"
case $answer in
  y*) printf '%s\n' "${answer:1}" ;;
  n*) printf 'hermes: %s\n' "${answer:1}" >&2; exit 1 ;;
  *) printf 'hermes: nobody answers with the password any more; run it again\n' >&2; exit 1 ;;
esac
"""

# Options that read the password elsewhere, or ask for none, are not changed.
_SUDO_SHIM_SCRIPT = r"""
plain= skip=
for word; do
  if [[ -n $skip ]]; then skip=; continue; fi
  case $word in
    --) break ;;
    --stdin|--non-interactive|--askpass|--remove-timestamp|--version|--help) plain=1 ;;
    --*=*) ;;
    --user|--group|--host|--prompt|--chdir|--chroot|--close-from|--command-timeout|--other-user|\
--role|--type|--login-class|--auth-type) skip=1 ;;
    --*) ;;
    -?*)
      letters=${word#-}
      while [[ -n $letters ]]; do
        case ${letters:0:1} in
          [SnAKV]) plain=1 ;;
          [ugpCrtThUDRac]) [[ -n ${letters:1} ]] || skip=1; break ;;
        esac
        letters=${letters:1}
      done ;;
    *) break ;;
  esac
done
[[ -n $plain ]] || set -- -A "$@"
exec "$real" "$@"
"""

# All processes with its mark get its SIGTERM, and `rm` must still run. A process of ours is
# visible and belongs to us; sudo belongs to root, or is hidden.
AGENT_SCRIPT = r"""
IFS= builtin read -r __hermes_secret
builtin cd -- "$__hermes_desk" || builtin exit
exec 3<>ask
builtin trap 'builtin trap "" TERM; command -p rm -rf -- "$__hermes_desk"; builtin exit 0' TERM
parent_of() {
  local stat=; { IFS= builtin read -r -d '' stat < "/proc/$1/stat"; } 2>/dev/null
  [[ -n $stat ]] || return 1
  set -- ${stat##*) }
  parent=$2 born=${20}
}
asked_by_sudo() {
  [[ $1 != *[!0-9]* && -p reply.$1 && -O reply.$1 ]] && parent_of "$1" || return 1
  local sudo=$parent name=
  [[ -d /proc/$sudo ]] || { who=$sudo; return 0; }
  { builtin read -r name < "/proc/$sudo/comm"; } 2>/dev/null
  [[ $name == sudo && ! -O /proc/$sudo ]] || return 1
  parent_of "$sudo"; who=$sudo:$born
}
__hermes_quiet=0 __hermes_served= __hermes_bad=
while ((__hermes_quiet < __hermes_idle)); do
  if IFS= builtin read -r -t 20 __hermes_pid <&3; then
    __hermes_quiet=0
    if asked_by_sudo "$__hermes_pid"; then
      [[ $who != "$__hermes_served" ]] || __hermes_bad=1
      __hermes_served=$who
      __hermes_word=y$__hermes_secret
      [[ -z $__hermes_bad ]] || __hermes_word=n%REFUSED%
    elif [[ $__hermes_pid != *[!0-9]* && -p reply.$__hermes_pid ]]; then
      __hermes_word=n'only sudo is told the password'
    else
      builtin continue
    fi
    { builtin printf '%s\n' "$__hermes_word" 1<>"reply.$__hermes_pid"; } 2>/dev/null
  else
    ((__hermes_quiet += 20))
    [[ -z $__hermes_owner ]] || builtin kill -0 "$__hermes_owner" 2>/dev/null || builtin break
  fi
done
command -p rm -rf -- "$__hermes_desk"
"""

PASSWORD_REFUSED_MESSAGE = (
    "sudo does not accept SUDO_PASSWORD; it is not tried again, so that the account is not locked. "
    "Set the right one in ~/.hermes/.env and start again"
)


SET_UP_SCRIPT = SET_UP_SCRIPT.replace("%HELPER%", quote(_ASKPASS_SCRIPT.strip())).replace(
    "%SHIM%", quote(_SUDO_SHIM_SCRIPT.strip())
)
AGENT_SCRIPT = AGENT_SCRIPT.replace("%REFUSED%", quote(PASSWORD_REFUSED_MESSAGE))


PASSWORD_VARIABLE = "SUDO_PASSWORD"
_SUDO_WORD = re.compile(r"\bsudo\b")
PASSWORD_HELPER_IDLE_S = 3600
"""Seconds without a question after which the answering process ends."""

RunCommand = Callable[[str], Awaitable[CommandResult]]
StartCommand = Callable[[str], Awaitable[BackgroundProcess]]


class SudoPasswordAgent:
    """One for each open environment with a password. `owner` is our process, if it is visible
    there: the answering process ends with it."""

    def __init__(self, password: str, *, owner: int | None = None) -> None:
        self._password = password
        self._owner = owner
        self._agent_process: BackgroundProcess | None = None
        self._tried_at: float | None = None
        self._lock = anyio.Lock()

    async def ready(self, command: str, run: RunCommand, start: StartCommand) -> None:
        """Called before a command that mentions sudo. Does nothing without sudo."""
        if _SUDO_WORD.search(command) is None:
            return
        async with self._lock:
            now = anyio.current_time()
            if self._tried_at is not None and now - self._tried_at < PASSWORD_HELPER_IDLE_S / 2:
                return
            await self.close()
            await self._open(run, start)
            self._tried_at = now

    async def close(self) -> None:
        process, self._agent_process = self._agent_process, None
        if process is not None:
            with suppress(HermesError):  # the environment is gone, and the process with it
                await process.kill()

    async def _open(self, run: RunCommand, start: StartCommand) -> None:
        done = await run(SET_UP_SCRIPT)
        _, found, folder = done.output.rpartition(AGENT_FOLDER_MARK)
        if not found:
            return
        words = {
            "desk": folder.strip(),
            "owner": str(self._owner or ""),
            "idle": str(PASSWORD_HELPER_IDLE_S),
        }
        given = " ".join(f"__hermes_{name}={quote(value)}" for name, value in words.items())
        self._agent_process = await start(f"{given}\n{AGENT_SCRIPT}")
        await self._agent_process.write(self._password.encode() + b"\n")


def open_password_agent(password: str, *, owner: int | None = None) -> SudoPasswordAgent | None:
    """None without a password, or with one that contains a line end."""
    if not password or "\n" in password or "\0" in password:
        return None
    return SudoPasswordAgent(password, owner=owner)
