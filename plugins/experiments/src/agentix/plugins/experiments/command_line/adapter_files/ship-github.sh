#!/bin/sh
# Commits a finished path into a checkout and pushes it.
#
# in   LOCAL_PATH  the file or directory to commit
#      DEST        where in the checkout, such as jobs/nightly (the input `dest` of the step `ship`)
#      REPO        the checkout (`repo` among its options); by default the one that the run was started in
#      RUN_ID      for the commit's message
#
# Git takes name, remote and authentication from its own configuration. Committing the same again changes nothing.
# Exit status 75 asks to be called again later.
set -eu

: "${LOCAL_PATH:?}" "${DEST:?the step needs the input dest}"
REPO=${REPO:-$PWD}
GIT_TERMINAL_PROMPT=0
export GIT_TERMINAL_PROMPT

case /$DEST/ in
//* | */../* | */.git/*) echo "dest has to be a path inside of the checkout: $DEST" >&2; exit 1 ;;
esac
cd "$REPO"
top=$(git rev-parse --show-toplevel) || exit 1
cd "$top"
branch=$(git symbolic-ref --quiet --short HEAD) || { echo "$REPO is on no branch" >&2; exit 1; }

mkdir -p "$DEST"
if [ -d "$LOCAL_PATH" ]; then
    cp -R "$LOCAL_PATH/." "$DEST/"
else
    cp "$LOCAL_PATH" "$DEST/"
fi
# What the checkout ignores is sent all the same: it was chosen to be sent.
git add --force -- "$DEST"
# Only this path: what else is staged in the checkout is not ours to commit.
git diff --cached --quiet -- "$DEST" || git commit --quiet --message "Add ${RUN_ID:-a run} to $DEST" -- "$DEST"

tries=0
until git push --quiet origin "HEAD:refs/heads/$branch"; do
    tries=$((tries + 1))
    [ "$tries" -lt 3 ] || { echo "the push to origin was refused $tries times" >&2; exit 75; }
    # Somebody else has pushed in the meantime.
    git pull --quiet --rebase origin "$branch" || { git rebase --abort 2>/dev/null || :; exit 75; }
done
echo "pushed $DEST to $branch"
