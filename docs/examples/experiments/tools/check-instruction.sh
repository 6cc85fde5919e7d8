#!/bin/sh
# A step of the complete example: refuses a case whose instruction is too short to be one.
# in   CASE_DIR, and the step's input min_words as MIN_WORDS
# out  exit status 0: fine; another one: refused, and what was printed last says why
set -eu

words=0
for file in "$CASE_DIR"/instruction.md "$CASE_DIR"/steps/*/instruction.md; do
    [ -f "$file" ] || continue
    words=$((words + $(wc -w <"$file")))
done
if [ "$words" -lt "${MIN_WORDS:-1}" ]; then
    echo "$words words of instruction, at least ${MIN_WORDS:-1} are wanted" >&2
    exit 1
fi
echo "$words words of instruction"
