#!/bin/sh
# Copies a finished path to an rclone remote, and checks what has arrived.
#
# in   LOCAL_PATH  the file or directory to send
#      KEY         a name for it that no other one has
#      DEST        the remote and the path there, such as onedrive:rollouts (the input `dest` of the step `ship`)
#      RCLONE_CONFIG and the RCLONE_* variables, which are rclone's own
#
# Sending the same again changes nothing. Exit status 75 asks to be called again later.
set -eu

: "${LOCAL_PATH:?}" "${KEY:?}" "${DEST:?the step needs the input dest, such as onedrive:rollouts}"
command -v rclone >/dev/null 2>&1 || { echo "there is no program rclone on the PATH" >&2; exit 1; }
case $DEST in
*:*) ;;
*) echo "dest names no remote: $DEST; write it like onedrive:rollouts" >&2; exit 1 ;;
esac

case $DEST in
*: | */) target=$DEST$KEY ;;
*) target=$DEST/$KEY ;;
esac

try() { # rclone's exit status 5 is an error that may pass
    status=0
    "$@" || status=$?
    [ "$status" -ne 5 ] || exit 75
    [ "$status" -eq 0 ] || exit "$status"
}

if [ -d "$LOCAL_PATH" ]; then
    try rclone copy --retries 3 -- "$LOCAL_PATH" "$target"
    try rclone check --one-way -- "$LOCAL_PATH" "$target"
else
    try rclone copyto --retries 3 -- "$LOCAL_PATH" "$target"
    found=$(rclone lsf --format s -- "$target") || exit 75
    size=$(wc -c <"$LOCAL_PATH" | tr -d ' ')
    [ "$found" = "$size" ] || { echo "$target has ${found:-no} bytes, and $LOCAL_PATH has $size" >&2; exit 75; }
fi
echo "sent to $target"
