#!/bin/sh
# The older way to say it: service NAME VERB.
exec systemctl "$2" "$1"
