#!/bin/sh
# A flat object of numbers: each key is a metric of its own in the results.
export LC_ALL=C
tidy=/app/tidy.txt
[ -f "$tidy" ] || { echo "there is no $tidy"; tidy=/dev/null; }

score() { if "$@"; then echo 1; else echo 0; fi; }

same_addresses() { [ "$(tr A-Z a-z < $tidy | sort -u)" = "$(cat /tests/expected.txt)" ]; }
lower_case()     { same_addresses && [ "$(tr A-Z a-z < $tidy)" = "$(cat $tidy)" ]; }
unique()         { same_addresses && [ -z "$(tr A-Z a-z < $tidy | sort | uniq -d)" ]; }
sorted()         { same_addresses && sort -c $tidy; }

printf '{"lower_case": %s, "unique": %s, "sorted": %s}\n' \
    "$(score lower_case)" "$(score unique)" "$(score sorted)" | tee /logs/verifier/reward.json
