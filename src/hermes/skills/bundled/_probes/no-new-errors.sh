# with: supervisors
u={{unit}}; sleep 0.8; ! unit_log "$u" 3 | grep -qE 'Traceback|FATAL|Exception| 50[0-9]( |$)'
