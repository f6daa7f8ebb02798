# Lists files for hosts without Python. The request has one line for each folder or file.
request=$(cat)
list() {
  printf '%s\n' "$request" | while IFS= read -r root; do
    [ -e "$root" ] && find "$root" -xdev \( -name __pycache__ -o -name supervise -o -path '*/.git/objects' \) -prune \
      -o \( -type f -o -type d -o -type l \) -exec stat -c 'F %f %u %g %s %Y %i %Z %n' {} + 2> /dev/null
    [ -e "$root" ] && find "$root" -xdev -type l -exec sh -c \
      'for each; do printf "L %s\t%s\n" "$each" "$(readlink "$each")"; done' sh {} + 2> /dev/null
  done
  sed 's/^/M /' /proc/self/mounts
  sed 's/^/U /' /etc/passwd
  sed 's/^/G /' /etc/group
  sed -n 's/^Package: /P /p; s/^Version: /V /p' /var/lib/dpkg/status 2> /dev/null
  printf 'T %s %s\n' "$(date +%s)" "$(hostname)"
}
read_files() {
  printf '%s\n' "$request" | while IFS= read -r line; do
    path=${line#* }
    case $line in
      'C '*) printf 'C %s\t%s\n' "$path" "$(gzip -c < "$path" 2> /dev/null | base64 | tr -d '\n')" ;;
      'D '*) printf 'D %s\t%s\n' "$path" "$(sha256sum < "$path" 2> /dev/null | cut -c 1-64)" ;;
    esac
  done
}
