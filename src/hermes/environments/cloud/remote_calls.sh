# The half of a remote call that works inside of the box; see remote_calls.py. Before it stand HEAD, TAIL,
# PIECE, WINDOW, MARK and FOLDER_MARK. Answers begin with `ok CODE SIZE` (the command's exit code,
# `-` or `gone`, and how much it has printed), with `no` and a reason for the model, or with `bad`
# and what is wrong with the place.

folder=$1 verb=$2 tree=$3
shift 3
own=$folder/$tree
apart=
type -P setsid >/dev/null && apart=setsid
forever=9223372036854775807
watcher=

no() { printf 'no %s\0hermes\0' "$1"; exit 0; }
bad() { printf 'bad %s\0hermes\0' "$1"; exit 0; }
ok() { printf 'ok %s %s\n' "${1:--}" "${2:-0}"; }

# The words of a command come in a file: what stands in an argument is seen by `ps`, and hit by
# `pkill -f`. Whoever waits for the command does not carry its mark, and outlives it.
watch='
mapfile -d "" -t words <"$1.words"
[[ -e $1.ended ]] && exit  # cancelled before it arrived
$2 "${words[@]}" <>"$1.in" >"$1.out" 2>&1
echo $? >"$1.code"
'

# $1 says how many bytes of our input are words, $2 what the command gets to read.
prepare() {
  [[ -d $folder ]] || mkdir -p -m 700 -- "$folder" || return
  : >"$own.out" || return
  case $2 in
    nothing) cat >"$own.words" && : >"$own.in" ;;
    pipe) cat >"$own.words" && mkfifo -m 600 -- "$own.in" ;;
    rest) cat >"$own.all" && head -c "$1" "$own.all" >"$own.words" &&
      tail -c "+$(($1 + 1))" "$own.all" >"$own.in" && rm -f -- "$own.all" ;;
  esac
}

launch() {
  local said
  said=$(prepare "$1" "$2" 2>&1) || bad "${said##*: }"
  # In a session of its own: what becomes of this call must not matter to the command.
  $apart bash -c "$watch" bash "$own" "$apart" </dev/null >/dev/null 2>&1 &
  watcher=$!
}

# Milliseconds; before bash 5 only whole seconds are known.
clock() {
  now=${EPOCHREALTIME/[^0-9]/}
  if [[ -n $now ]]; then now=${now%???}; else now=$((SECONDS * 1000)); fi
}

# Returns when there are more than $1 bytes of output, when it has ended, or after $2 ms.
# With $3, nobody will ask for what lies between the ends.
look() {
  local now until pause=5
  clock
  until=$((now + $2))
  while :; do
    read -r code 2>/dev/null <"$own.code" || code=-  # first: last words come before the end
    size=$(stat -c %s -- "$own.out" 2>/dev/null) || code=gone size=0
    if [[ $code != - ]] || ((size > $1)); then return; fi
    clock
    ((now < until)) || return
    [[ -n $3 ]] && trim "$HEAD" "$((size - TAIL))"
    ((pause = pause < 200 ? pause * 2 : 200))
    rest "$pause"
  done
}

# Sleeps $1 ms; shorter when the command was started by us and ends.
rest() {
  local length=$1
  [[ -n $watcher ]] && length=1000
  ((length < until - now)) || length=$((until - now))
  printf -v length '%d.%03d' "$((length / 1000))" "$((length % 1000))"
  sleep "$length" </dev/null >/dev/null &
  [[ -z $watcher ]] || { wait -n; kill "$!"; }
  wait "$!"
} 2>/dev/null

# What was read, or never will be, goes back to the disk, where the disk can take it back.
trim() {
  local length=$(($2 - $1))
  ((length > 16777216)) && fallocate -p -o "$1" -l "$length" "$own.out" 2>/dev/null
}

forget() { rm -f -- "$own".{in,out,code,words,all,sh}; }

# Only the ends of a long output are ever shown.
tell() {
  ok "$code" "$size"
  [[ -e $own.out ]] || return
  if ((size <= HEAD + TAIL)); then cat -- "$own.out"
  else head -c "$HEAD" -- "$own.out"; tail -c "$TAIL" -- "$own.out"; fi
  forget
}

members() { grep -lzxF -- "$MARK=$tree" /proc/[0-9]*/environ 2>/dev/null; }

signal() {
  local path
  while IFS= read -r path; do
    path=${path#/proc/}
    kill -s "$1" "${path%/environ}" 2>/dev/null
  done < <(members)
}

# Asks for $1 tenths of a second, then kills.
finish() {
  local left=$1
  [[ -d $folder ]] && : >"$own.ended"
  while ((left > 0)) && [[ -n $(members) ]]; do
    ((left == $1)) && { signal TERM; signal CONT; }
    sleep .1
    ((left--))
  done
  for left in {1..20}; do
    [[ -n $(members) ]] || break
    signal KILL
    sleep .02
  done
}

open() {
  local wanted start=$PWD
  IFS= read -r -d '' wanted
  [[ $start == / && -d $HOME && -w $HOME ]] && start=$HOME
  if [[ -n $wanted ]]; then
    mkdir -p -- "$wanted" 2>/dev/null
    cd -- "$wanted" 2>/dev/null || no "there is no folder $wanted to start in, and none can be made"
    start=$PWD
  fi
  folder=$(mktemp -d "${TMPDIR:-/tmp}/.hermes-XXXXXXXX" 2>&1) || no "$folder"
  ok
  printf '%s\0%s' "$folder" "$start"
}

# The path that follows in our input, as the session's shell would see it from $1.
place() {
  local state from=$1
  IFS= read -r -d '' path
  case $path in '~'|'~/'*) path=$HOME${path:1} ;; esac
  [[ $path == /* ]] && return
  if [[ -r $folder/state ]]; then
    state=$(cat -- "$folder/state"; printf x)
    state=${state%x}
    [[ $state == *"$FOLDER_MARK"* ]] && from=${state##*"$FOLDER_MARK"}
  fi
  path=$from/$path
}

only_files() {
  [[ -d $path ]] && no 'it is a folder, not a file'
  [[ -e $path && ! -f $path ]] && no 'it is a device or pipe, not a file'
}

fetch() {
  only_files
  [[ -e $path ]] || no 'there is no such file'
  [[ -r $path ]] || no 'permission denied'
  ok
  if [[ -n $2 ]]; then tail -c "+$(($1 + 1))" -- "$path" | head -c "$2"
  else tail -c "+$(($1 + 1))" -- "$path"; fi
}

replace() {
  local into new said
  if [[ -L $path ]]; then
    path=$(readlink -f -- "$path"; printf x)
    path=${path%$'\n'x}
  fi
  only_files
  [[ $path == */ ]] && no 'that names a folder'
  into=${path%/*} new=${path%/*}/.hermes-$tree
  said=$(mkdir -p -- "$into/" 2>&1) || no "${said##*: }"
  said=$(cat 2>&1 >"$new") || { rm -f -- "$new"; no "${said##*: }"; }
  if [[ -e $path ]]; then
    chown "$(stat -c %u:%g -- "$path")" -- "$new" 2>/dev/null
    chmod "$(stat -c %a -- "$path")" -- "$new"
  fi
  sync -- "$new" 2>/dev/null
  said=$(mv -f -- "$new" "$path" 2>&1) || { rm -f -- "$new"; no "${said##*: }"; }
  ok
}

case $verb in
  open) open ;;
  run) launch "$1" "$2"; look "$forever" "$3" ends; if [[ $code == - ]]; then ok; else tell; fi ;;
  await) look "$forever" "$1" ends; if [[ $code == - ]]; then ok; else tell; fi ;;
  stop) finish "$1"; look "$forever" 1000; tell; forget ;;
  start) [[ $2 != terminal || -n $(command -v script) ]] ||
      no 'nothing here can give it a terminal: install the program `script` (bsdutils)'
    launch "$1" pipe; ok ;;
  listen) trim 0 "$(($1 - WINDOW))"; look "$1" "$2"; ok "$code" "$size"
    tail -c "+$(($1 + 1))" -- "$own.out" 2>/dev/null | head -c "$PIECE" ;;
  wait) look "$forever" "$1"; ok "$code" "$size" ;;
  feed) [[ -p $own.in && ! -s $own.code ]] || no 'the process has ended'
    timeout 10 bash -c 'cat >"$1"' bash "$own.in" || no 'the process does not take its input'
    ok ;;
  kill) finish "$1"; look "$forever" 1000; ok "$code" "$size" ;;
  forget) forget; ok ;;
  read) place "$1"; fetch "$2" "$3" ;;
  write) place "$1"; replace ;;
esac
printf '\0hermes\0'
