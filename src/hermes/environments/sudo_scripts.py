"""What runs in the place so that sudo can ask for its password; see `sudo`."""

DESK = "hermes-desk:"
"""Stands before the folder in which helper and keeper meet."""

# In the session's own shell, so that the two variables last. Folders are tried until one allows
# programs to be run from it.
SET_UP = r"""
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

_HELPER = r"""
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

# Options that read the password elsewhere, or ask for none, are left alone.
_SHIM = r"""
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

# All that carries its mark is asked to end with it, and `rm` must not do as it is told. A process
# of ours is visible to us and belongs to us; sudo belongs to root, or is hidden.
KEEPER = r"""
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

REFUSED = (
    "sudo does not accept SUDO_PASSWORD; it is not tried again, so that the account is not locked. "
    "Set the right one in ~/.hermes/.env and start anew"
)


def _word(text: str) -> str:
    """As one word of bash."""
    return "'" + text.strip().replace("'", "'\\''") + "'"


SET_UP = SET_UP.replace("%HELPER%", _word(_HELPER)).replace("%SHIM%", _word(_SHIM))
KEEPER = KEEPER.replace("%REFUSED%", _word(REFUSED))
