# The services of systemd with their effective settings. Reads only.
command -v systemctl > /dev/null 2>&1 || exit 0
names=$(systemctl list-units --type=service --all --plain --no-legend --no-pager 2> /dev/null |
  grep -oE '[A-Za-z0-9_][A-Za-z0-9_.:@\\-]*\.service' | sort -u)
files=$(systemctl list-unit-files --type=service --state=enabled --plain --no-legend --no-pager \
  2> /dev/null | grep -oE '^[A-Za-z0-9_][A-Za-z0-9_.:\\-]*\.service' | sort -u)
names=$(printf '%s\n%s\n' "$names" "$files" | sort -u)
[ -n "$names" ] || exit 0
echo 'hermes-units systemd'
systemctl show --no-pager -p Id,LoadState,ActiveState,SubState,UnitFileState,FragmentPath,DropInPaths,ExecStart,ExecStartPre,ExecReload,User,Group,WorkingDirectory,Environment,EnvironmentFiles,LimitNOFILE,LimitNPROC,LimitMEMLOCK,MemoryMax,MemoryHigh,CPUQuotaPerSecUSec,TasksMax,Restart,Type,RuntimeDirectory,StateDirectory,ReadWritePaths,ProtectSystem,PrivateTmp,Requires,Wants,After $names 2> /dev/null
