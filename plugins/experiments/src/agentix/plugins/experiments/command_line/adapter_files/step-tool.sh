#!/bin/sh
# A step of your own: a local tool that comes to the same conclusion whenever it is asked.
#
# in    EXPERIMENT RUN_ID RUN_DIR LOCAL_PATH KEY WORK_DIR always
#       CASE_DIR CASE_LABEL CASE_SHA                      per case and per trial
#       TRIAL_ID OUT_DIR                                  per trial
#       the step's own inputs (`with`), as UPPER_SNAKE
# out   exit status 0: fine. 75: could not find out, try again later (the step's `retries`). Any other: rejected, and
#       what was printed last says why.
#
# It may be run again after an interruption, so be safe to run twice. It starts where agentix was started; WORK_DIR is a
# directory of its own, and the only one that it may write to. Nothing under RUN_DIR is secret to whoever reads the run:
# keep keys out of it.
#
# A command uses it by its path, and a step uses the command by its name:
#
#     kind: Commands
#     my_check: {uses: adapters/step-tool.sh}
set -eu

: "${RUN_DIR:?}" "${LOCAL_PATH:?}"

# Replace everything from here on. It fails until you do: a step that quietly did nothing would look like success.
echo "step-tool.sh: nobody has written yet what this step does" >&2
exit 64
