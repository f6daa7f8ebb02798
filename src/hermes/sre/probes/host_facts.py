"""Reads the facts that the audit of a host consists of, with one script that only reads."""

from hermes.core.protocols import CommandResult, Environment

HOST_FACTS_SCRIPT = r"""
export LC_ALL=C
echo '@host'; uname -n; cut -d' ' -f1 /proc/uptime; nproc; cat /proc/loadavg
echo '@memory'; grep -E '^(MemTotal|MemAvailable|SwapTotal|SwapFree):' /proc/meminfo
echo '@disks'; df -P -k -x tmpfs -x devtmpfs -x squashfs -x efivarfs 2>/dev/null | tail -n +2
echo '@inodes'; df -P -i -x tmpfs -x devtmpfs -x squashfs -x efivarfs 2>/dev/null | tail -n +2
echo '@certificates'
if command -v openssl >/dev/null; then
  { ls -d /etc/letsencrypt/live/*/fullchain.pem /etc/nginx/ssl/*.crt /etc/nginx/ssl/*.pem
    grep -rhoE '^[^#]*ssl_certificate[[:space:]]+[^;]+' /etc/nginx | sed 's/.*[[:space:]]//'
  } 2>/dev/null | sort -u | head -50 | while read -r file; do
    end=$(openssl x509 -noout -enddate -in "$file" 2>/dev/null) && echo "${end#notAfter=}|$file"
  done
fi
echo '@backups'
for folder in /var/backups /backup /backups /srv/backup /srv/backups; do
  [ -d "$folder" ] && find "$folder" -maxdepth 3 -type f -printf '%T@|%s|%p\n' 2>/dev/null |
    sort -n | tail -n 1
done
echo '@end'
"""
HOST_FACTS_TIMEOUT_S = 60.0


async def run_query(environment: Environment, command: str, timeout_s: float) -> CommandResult:
    """Run a fixed command that only reads. Raises `EnvironmentFailed`."""
    return await environment.run(command, timeout=timeout_s)


async def read_host_facts(environment: Environment) -> str:
    """The output of the script: sections that begin with `@`. Raises `EnvironmentFailed`."""
    done = await environment.run(HOST_FACTS_SCRIPT, timeout=HOST_FACTS_TIMEOUT_S)
    return done.output
