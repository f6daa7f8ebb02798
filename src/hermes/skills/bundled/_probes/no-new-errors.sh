u={{unit}}; sleep 0.8; ! journalctl -u "$u" -n 3 -o cat --no-pager | grep -qE 'Traceback|FATAL|Exception| 50[0-9]( |$)'
