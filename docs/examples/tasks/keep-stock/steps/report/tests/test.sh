#!/bin/sh
# Half of the reward is for the right items, half for their order.
expected=$(printf 'nail\ntape\nwire')
found=$(cat /app/order.txt)
echo "$found"
if [ "$found" = "$expected" ]; then
    reward=1
elif [ "$(echo "$found" | LC_ALL=C sort)" = "$expected" ]; then
    reward=0.5
else
    reward=0
fi
echo $reward > /logs/verifier/reward.txt
