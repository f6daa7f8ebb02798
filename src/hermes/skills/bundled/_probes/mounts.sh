# Mounts that programs of the host can write to. A confined command has all of them mounted read-only for itself, below its own folder for temporary files; whether the file system can be written is an option of its own.
writable_mounts() {
  awk '{for (i = 7; $i != "-"; i++); own[$5] = $6; whole[$5] = $(i + 3)}
    own[$5] ~ /^rw/ && $5 !~ /^\/(proc|sys|dev|run|tmp)(\/|$)/ {open = 1}
    END {for (m in own) if (whole[m] ~ /^rw/ && (!open || own[m] ~ /^rw/) && m !~ /^\/(proc|sys|usr)/) print m}' /proc/self/mountinfo | sort
}
full_mounts() { writable_mounts | grep -v '^/dev' | while read -r m; do df -P "$m" 2>/dev/null | awk -v m="$m" 'NR==2 && $2>0 && ($5+0>=90 || $4<1024){print m}'; done; }
