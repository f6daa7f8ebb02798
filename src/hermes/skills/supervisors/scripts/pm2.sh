timeout 8 pm2 jlist 2>/dev/null | tr ',{' '\n\n' | awk -F '"' '
  $2=="pid"&&$3~/^:[0-9]+$/{pid=$3; sub(":","",pid)} $2=="name"&&!(($4) in seen){seen[$4]=1; u="unit=" $4 "\t"; print u "kind\tpm2"; print u "pid\t" pid}
  u!=""&&$2=="status"{a=($4=="online")?"active":($4=="launching"||$4=="waiting restart")?"activating":($4=="errored")?"failed":"inactive"; print u "state\t" a}
  u!=""&&$2=="restart_time"{r=$3; sub(":","",r); print u "restarts\t" r} u!=""&&$2=="pm_exec_path"{print u "define\tExecStart=" $4} u!=""&&$2=="pm_cwd"{print u "define\tWorkingDirectory=" $4}
  u!=""&&$2~/^pm_(out|err)_log_path$/{print u "log\t" $4}'
exit 0
