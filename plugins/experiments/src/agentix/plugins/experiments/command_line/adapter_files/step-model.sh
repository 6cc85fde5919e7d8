#!/bin/sh
# A step of your own that asks a model.
#
# Two endings look alike from inside and must not be taken for each other:
#
#   a verdict    the model answered, and the answer is no. That is what the step is for: it exits with 1, and is never
#                asked again, because that would cost money for the same answer.
#   an incident  the call did not come to an answer (network, rate limit, a cut-off reply). Nothing was judged: it exits
#                with 75, and the step's `retries` try it again.
#
# in    as in step-tool.sh; the name of a key's variable belongs into the command's `env`
# out   exit status 0: fine. 1: rejected, and what was printed last says why. 75: could not find out.
set -eu

: "${LOCAL_PATH:?}"

incident() {
    echo "no verdict: $1" >&2
    exit 75
}

# Replace this. It prints the model's answer, whose first word is PASS or FAIL, and returns another status than 0 where
# the call did not come to one. Put the key into a file or the environment of the tool that calls, not into its
# arguments, where every user of this machine could read it.
ask() {
    echo "step-model.sh: nobody has written yet what this step asks" >&2
    exit 64
}

answer=$(ask "$LOCAL_PATH") || {
    status=$?
    # 64 is this template, which fails until it is edited, whatever the step's `retries` say.
    [ "$status" -ne 64 ] || exit 64
    incident "the call ended with exit status $status"
}

case $answer in
PASS*) echo "$answer" ;;
FAIL*) echo "$answer" >&2; exit 1 ;;
*) incident "the answer starts with neither PASS nor FAIL" ;;
esac
