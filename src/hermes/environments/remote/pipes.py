"""Programs with raw pipes on another host, over a client program such as `ssh` or `docker exec`.

The client runs here as a piped process, so it ends with its block and with Hermes. On the other
host a shell stands between: it notices that its input was closed, gives the program a moment to
end, and kills its whole tree.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from hermes.core.protocols import PipedProcess
from hermes.environments.processes.piped_process import EXIT_GRACE_S, open_piped
from hermes.environments.remote.client import RemoteClient
from hermes.environments.remote.scripts import PROCESS_SHELL_NAME
from hermes.environments.shell import TREE_VARIABLE, check_argument, new_tree_mark

CLOSE_GRACE_S = 2 * EXIT_GRACE_S
"""Seconds for the client to end here; the program there has half of it."""

# The folder and the variables come first over the pipe: arguments are visible to others. `cat`
# stands between so that the end of our input is seen even if the program never reads.
_START_SCRIPT = rf"""
mark=$1 tenths=$2; shift 2
given=()
while IFS= read -r -d '' word && [[ -n $word ]]; do given+=("$word"); done
end_tree() {{
  local round path word words
  for round in 1 2 3; do
    for path in /proc/[0-9]*; do
      words=(); mapfile -d '' -t words < "$path/environ"
      for word in "${{words[@]}}"; do
        [[ $word != "{TREE_VARIABLE}=$mark" ]] || kill -KILL "${{path#/proc/}}"
      done
    done
  done
}}
exec 3<&0
coproc FEED {{ exec cat <&3 2>/dev/null; }}
feed=$FEED_PID
exec 4<&"${{FEED[0]}}"
(
  exec 3<&-
  code=126
  if cd -- "${{given[0]}}"; then
    for name in $(compgen -e); do
      case $name in
        PATH | HOME | LANG | LC_* | USER | LOGNAME | SHELL | TMPDIR) ;;
        *) unset "$name" 2>/dev/null ;;
      esac
    done
    for word in "${{given[@]:1}}"; do export "$word"; done
    {TREE_VARIABLE}="$mark" "$@" <&4 4<&-
    code=$?
  fi
  kill -KILL "$feed"
  exit "$code"
) &
program=$!
trap '' HUP PIPE TERM
exec 4<&-
eval "exec ${{FEED[0]}}<&- ${{FEED[1]}}>&-" 2>/dev/null
wait "$feed" 2>/dev/null
for ((round = 0; round < tenths; round++)); do
  kill -0 "$program" 2>/dev/null || break
  sleep 0.1
done
end_tree 2>/dev/null
wait "$program" 2>/dev/null
"""


@asynccontextmanager
async def open_remote_piped(
    client: RemoteClient,
    argv: Sequence[str],
    *,
    variables: Mapping[str, str],
    cwd: str = "",
    log: Path | None = None,
) -> AsyncIterator[PipedProcess]:
    """Runs `argv` there until the end of the block.

    Of the variables of that host it gets PATH, HOME and those of the language and the account.
    Raises `EnvironmentFailed`.
    """
    preamble = [cwd or ".", *(f"{name}={value}" for name, value in variables.items())]
    for word in (*argv, *preamble):
        check_argument(word)
    await client.connect()
    tenths = str(int(EXIT_GRACE_S * 10))
    shell = ["bash", "-c", _START_SCRIPT, PROCESS_SHELL_NAME, new_tree_mark(), tenths]
    async with open_piped(
        client.words([*shell, *argv]),
        variables=client.variables,
        cwd="/",
        log=log,
        grace_s=CLOSE_GRACE_S,
    ) as process:
        await process.send("".join(f"{word}\0" for word in (*preamble, "")).encode())
        yield process
