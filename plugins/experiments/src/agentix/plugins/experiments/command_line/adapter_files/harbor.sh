#!/bin/sh
# Runs one trial through the Harbor CLI: `harbor run` on one task, with one agent, once.
#
# in   CASE_DIR OUT_DIR WORK_DIR TRIAL_ID AGENT_KIND AGENT_NAME AGENT_TIMEOUT_SEC
#      LLM_PROVIDER LLM_BASE_URL LLM_MODEL LLM_API_KEY
# out  $OUT_DIR/reward.json   the reward, and every metric beside it
#      $OUT_DIR/failure.txt   why there is none: a failure code, then an explanation
#      $OUT_DIR/usage.json, $OUT_DIR/trajectory.json and what else the trial left
#
# HARBOR_ENVIRONMENT (docker) says where Harbor makes its containers, HARBOR_ARGS holds more arguments for it.
set -eu

: "${CASE_DIR:?}" "${OUT_DIR:?}" "${TRIAL_ID:?}" "${AGENT_NAME:?}"
WORK_DIR=${WORK_DIR:-$OUT_DIR}
LLM_MODEL=${LLM_MODEL:-}
LLM_PROVIDER=${LLM_PROVIDER:-}

fail() { # CODE EXPLANATION
    printf '%s\n%s\n' "$1" "$2" >"$OUT_DIR/failure.txt"
    exit 0
}

command -v harbor >/dev/null 2>&1 || fail ENV_FAILED "there is no program harbor on the PATH; install it with: uv tool install harbor"
# Harbor is a Python program, so where there is no python3 there is still its own.
python=$(command -v python3 || sed -n '1s/^#! *//p' "$(command -v harbor)")
[ -x "$python" ] || fail ENV_FAILED "there is no python3 to read Harbor's result with"
[ "${AGENT_KIND:-}" != command ] || fail ENV_FAILED "Harbor brings its own agents and cannot run the command agent_$AGENT_NAME"

# A key goes through the environment, never into an argument, where every user of this machine could read it.
case $LLM_PROVIDER in
anthropic) key=ANTHROPIC_API_KEY url=ANTHROPIC_BASE_URL ;;
google | gemini) key=GEMINI_API_KEY url=GOOGLE_GEMINI_BASE_URL ;;
openrouter) key=OPENROUTER_API_KEY url=OPENROUTER_BASE_URL ;;
*) key=OPENAI_API_KEY url=OPENAI_BASE_URL ;;
esac
[ -z "${LLM_API_KEY:-}" ] || export "$key=$LLM_API_KEY"
[ -z "${LLM_BASE_URL:-}" ] || export "$url=$LLM_BASE_URL"
export HARBOR_TELEMETRY=off

job=$WORK_DIR/harbor
set -- run -p "$CASE_DIR" -a "$AGENT_NAME" -e "${HARBOR_ENVIRONMENT:-docker}" -o "$job" --job-name "$TRIAL_ID" \
    -k 1 -n 1 --max-retries 0 -q -y
case $LLM_MODEL in
'') ;;
*/*) set -- "$@" -m "$LLM_MODEL" ;;
*) set -- "$@" -m "${LLM_PROVIDER:+$LLM_PROVIDER/}$LLM_MODEL" ;;
esac

# Harbor enforces the time limit of task.toml itself; another one is told as a multiple of that.
declared=$(sed -n '/^\[agent\]/,/^\[[^a]/s/^timeout_sec *= *\([0-9.][0-9.]*\).*/\1/p' "$CASE_DIR/task.toml" | sed 1q)
if [ -n "${AGENT_TIMEOUT_SEC:-}" ] && [ -n "$declared" ]; then
    times=$(awk -v wanted="$AGENT_TIMEOUT_SEC" -v declared="$declared" \
        'BEGIN { if (declared > 0 && wanted != declared) printf "%.6f", wanted / declared }')
    [ -z "$times" ] || set -- "$@" --agent-timeout-multiplier "$times"
fi

# Harbor removes its containers when it is asked to end, so that is handed on and waited for. As a background process
# of a shell it would not hear an interrupt.
# shellcheck disable=SC2086  # several arguments are meant
harbor "$@" ${HARBOR_ARGS:-} >"$WORK_DIR/harbor.log" 2>&1 &
child=$!
trap 'kill -TERM "$child" 2>/dev/null || :; wait "$child" || :; exit 130' INT TERM
status=0
wait "$child" || status=$?
trap - INT TERM
tail -n 20 "$WORK_DIR/harbor.log" >&2

# Harbor ends with 0 also where a trial failed; what happened is in the result of the one trial.
"$python" - "$job/$TRIAL_ID" "$OUT_DIR" "$status" <<'END'
import glob, json, math, os, shutil, sys

job, out, status = sys.argv[1:]
AGENT = (
    "NonZeroAgentExitCodeError AgentSafetyRefusalError ContextWindowExceededError OutputTokenExceededError "
    "ContextLengthExceededError OutputLengthExceededError ContentPolicyViolationError"
).split()
SCORER = "RegradeError AddTestsDirError DownloadVerifierDirError".split()
MODEL_SETUP = "ApiProviderResourceNotFoundError".split()


def fail(code, why):
    with open(os.path.join(out, "failure.txt"), "w") as file:
        file.write("%s\n%s\n" % (code, why))


def code_of(name):
    if name == "AgentTimeoutError":
        return "AGENT_TIMEOUT"
    if name in AGENT:
        return "AGENT_FAILED"
    if name in SCORER or name.startswith(("Verifier", "RewardFile")):
        return "VERIFIER_ERROR"
    if name not in MODEL_SETUP and (name.startswith(("Api", "API", "Network")) or name == "RuntimeRequestError"):
        return "HOST_ERROR"
    return "ENV_FAILED"


def write(name, value):
    with open(os.path.join(out, name), "w") as file:
        json.dump(value, file, indent=2)


def is_number(value):
    return isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)


def bring(trial):
    for name in os.listdir(trial):
        source, target = os.path.join(trial, name), os.path.join(out, name if name != "reward.json" else "harbor-" + name)
        if os.path.isdir(source):
            shutil.copytree(source, target, symlinks=True)
        else:
            shutil.copy2(source, target, follow_symlinks=False)
    trajectory = os.path.join(trial, "agent", "trajectory.json")
    if os.path.isfile(trajectory):
        shutil.copy2(trajectory, os.path.join(out, "trajectory.json"))


def main():
    found = sorted(glob.glob(os.path.join(glob.escape(job), "*", "result.json")))
    if len(found) != 1:
        fail("ENV_FAILED", "harbor ended with exit status %s and left %d results" % (status, len(found)))
        return
    with open(found[0]) as file:
        result = json.load(file)
    bring(os.path.dirname(found[0]))
    used = result.get("agent_result") or {}
    cached, tokens = used.get("n_cache_tokens"), used.get("n_input_tokens")
    usage = {
        "input": tokens if tokens is None or cached is None else max(0, tokens - cached),
        "cache_read": cached,
        "output": used.get("n_output_tokens"),
        "cost_usd": used.get("cost_usd"),
    }
    if any(value is not None for value in usage.values()):
        write("usage.json", {name: value for name, value in usage.items() if value is not None})
    steps = result.get("step_results") or []
    errors = [one.get("exception_info") for one in [result] + steps if one.get("exception_info")]
    codes = [code_of(str(error.get("exception_type"))) for error in errors]
    rewards = (result.get("verifier_result") or {}).get("rewards") or {}
    # An agent's failure does not undo what its work was found to be worth; any other one does.
    others = [at for at, code in enumerate(codes) if not code.startswith("AGENT_")]
    if others or (errors and not rewards):
        at = others[0] if others else 0
        fail(codes[at], "%s: %s" % (errors[at].get("exception_type"), errors[at].get("exception_message")))
        return
    if not rewards or not all(is_number(value) for value in rewards.values()):
        fail("VERIFIER_ERROR", "harbor's result has no usable reward: %s" % json.dumps(rewards))
        return
    values = list(rewards.values())
    write("reward.json", {"reward": rewards.get("reward", sum(values) / len(values)), **rewards})


main()
END
