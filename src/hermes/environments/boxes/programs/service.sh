#!/bin/sh
# The older form of systemctl: service NAME VERB.
exec systemctl "$2" "$1"
