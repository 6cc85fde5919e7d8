#!/bin/sh
found=$(printf 'nail 10\nbolt 4\nnail -3\nwire 1\nbolt 6\n' | sh /app/count.sh)
expected=$(printf 'bolt 10\nnail 7\nwire 1')
echo "$found"
if [ "$found" = "$expected" ]; then reward=1; else reward=0; fi
echo $reward > /logs/verifier/reward.txt
