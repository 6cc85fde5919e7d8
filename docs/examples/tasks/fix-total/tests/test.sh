#!/bin/sh
# All or nothing: the reward is 1 when every case passes.
failed=0

check() { # name, input (as for printf), expected sum
    found=$(printf -- "$2" | sh /app/total.sh 2>&1)
    if [ "$found" = "$3" ]; then
        echo "ok      $1"
    else
        echo "FAILED  $1: expected $3, found $found"
        failed=1
    fi
}

check "several numbers"       '1\n2\n3\n'    6
check "no number"             ''             0
check "empty lines"           '4\n\n\n5\n'   9
check "negative numbers"      '5\n-3\n'      2
check "no newline at the end" '10\n20'       30
check "both"                  '-1\n\n-2'     -3

echo $((1 - failed)) > /logs/verifier/reward.txt
