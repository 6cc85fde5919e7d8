#!/bin/sh
# /app/summary.txt was copied here as a declared artifact. /app/server.log was not changed by anybody: it is the image's.
if [ "$(cat /app/summary.txt)" = "$(printf 'errors: %s\nlast: 15:20:09' "$EXPECTED_ERRORS")" ]; then
    echo 1 > /logs/verifier/reward.txt
else
    diff /app/summary.txt - <<END
errors: $EXPECTED_ERRORS
last: 15:20:09
END
    echo 0 > /logs/verifier/reward.txt
fi
