#!/bin/sh
# The exit status of this script says nothing; the number in reward.txt is the result.
echo "expected: Hello, agentix!"
echo "found:    $(cat /app/greeting.txt 2>&1)"
if [ "$(cat /app/greeting.txt 2>/dev/null)" = "Hello, agentix!" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    echo 0 > /logs/verifier/reward.txt
fi
