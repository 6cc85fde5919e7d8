#!/bin/sh
errors=$(grep -c '^[0-9:]* ERROR ' /app/server.log)
last=$(grep '^[0-9:]* ERROR ' /app/server.log | tail -n 1 | cut -d ' ' -f 1)
printf 'errors: %s\nlast: %s\n' "$errors" "$last" > /app/summary.txt
