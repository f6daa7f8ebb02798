u={{unit}}
systemctl is-active -q "$u" || exit 1
n=$(systemctl show -p NRestarts --value "$u")
sleep 0.6
systemctl is-active -q "$u" && [ "$(systemctl show -p NRestarts --value "$u")" = "$n" ]
