#!/bin/sh
sh /app/count.sh < /app/changes.txt | while read -r item count; do
    [ "$count" -ge 5 ] || echo "$item"
done > /app/order.txt
