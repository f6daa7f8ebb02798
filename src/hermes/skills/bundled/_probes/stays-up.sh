{{is_active}} || exit 1
n=$({{instance}})
sleep 0.6
m=$({{instance}}); {{is_active}} && [ "$m" = "$n" ]
