# ruff: noqa: PTH123, S302, SIM105
"""Runs inside a new sandbox before the runtime's server: writes the files that its Dockerfile copies.

It is handed to the runtime's interpreter as text and therefore imports nothing but built-in modules. Entries are
marshalled tuples, made by the same version of Python on the trusted side.
"""

import io
import marshal
import posix
import sys


def _make_parents(path: str) -> None:
    done = ""
    for part in path.split("/")[1:-1]:
        done += "/" + part
        try:
            posix.mkdir(done, 0o755)
        except FileExistsError:
            pass


def _write(stream: io.BufferedReader, path: str, kind: str, mode: int, uid: int, gid: int, target: str) -> None:
    _make_parents(path)
    if kind == "dir":
        try:
            posix.mkdir(path, 0o755)
        except FileExistsError:
            return
    else:
        try:
            posix.unlink(path)
        except FileNotFoundError:
            pass
    if kind == "link":
        posix.symlink(target, path)
    elif kind == "file":
        with open(path, "wb") as file:
            while chunk := marshal.load(stream):
                file.write(chunk)
    posix.chown(path, uid, gid, follow_symlinks=False)
    if kind != "link":
        posix.chmod(path, mode)


def main(descriptor: int, status: int, argv: list[str]) -> None:
    """Write all entries, report, and become the command `argv`."""
    posix.umask(0o022)
    path = ""
    try:
        with open(descriptor, "rb") as stream:
            while entry := marshal.load(stream):
                path = entry[0]
                _write(stream, *entry)
    except OSError as error:
        posix.write(status, marshal.dumps((path, error.errno, error.strerror)))
        posix._exit(1)
    posix.write(status, b"\0")
    posix.close(status)
    posix.execv(argv[0], argv)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
