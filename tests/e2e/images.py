"""Images for tests on a real engine, made on the spot: no registry is asked for anything."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import tarfile
from collections.abc import Mapping
from pathlib import Path

PASSWD = "root:x:0:0:root:/root:/bin/sh\nworker:x:1000:1000::/home/worker:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n"
GROUP = "root:x:0:\nworker:x:1000:\nnobody:x:65534:\n"


def missing() -> str | None:
    """What keeps such tests from running here."""
    if shutil.which("docker") is None:
        return "no docker command line to import images with"
    asked = subprocess.run(["docker", "version"], capture_output=True, text=True, timeout=120, check=False)
    if asked.returncode:
        return f"no container engine: {asked.stderr.strip()}"
    busybox = shutil.which("busybox")
    if busybox is None or b"ld-linux" in Path(busybox).read_bytes()[:4096]:
        return "no static busybox to make an image of: install busybox-static"
    return None


def bash_files() -> dict[str, bytes]:
    """This machine's bash with the libraries that it loads, by their paths in an image."""
    bash = shutil.which("bash") or ""
    listed = subprocess.run(["ldd", bash], capture_output=True, text=True, check=True).stdout
    libraries = re.findall(r"(/\S+) \(0x", listed)
    return {"bin/bash": Path(bash).read_bytes(), **{lib.lstrip("/"): Path(lib).read_bytes() for lib in libraries}}


def import_busybox(name: str, *, more: Mapping[str, bytes] | None = None) -> None:
    """Make an image of a static busybox, two files that name its users, and more files."""
    busybox = Path(shutil.which("busybox") or "")
    applets = subprocess.run([busybox, "--list"], capture_output=True, text=True, check=True).stdout.split()
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        for folder, mode in (("bin", 0o755), ("etc", 0o755), ("tmp", 0o1777), ("root", 0o700), ("home/worker", 0o755)):
            entry = tarfile.TarInfo(folder)
            entry.type, entry.mode = tarfile.DIRTYPE, mode
            tar.addfile(entry)
        for path, data in (
            ("bin/busybox", busybox.read_bytes()),
            ("etc/passwd", PASSWD.encode()),
            ("etc/group", GROUP.encode()),
            ("etc/made-for", name.encode()),
            *(more or {}).items(),
        ):
            entry = tarfile.TarInfo(path)
            entry.size, entry.mode = len(data), 0o755
            tar.addfile(entry, io.BytesIO(data))
        for applet in {*applets} - {"busybox", *(path.removeprefix("bin/") for path in more or ())}:
            entry = tarfile.TarInfo(f"bin/{applet}")
            entry.type, entry.linkname = tarfile.SYMTYPE, "busybox"
            tar.addfile(entry)
    change = ["--change", "ENV PATH=/usr/local/bin:/usr/bin:/bin"]
    subprocess.run(["docker", "import", *change, "-", name], input=buffer.getvalue(), check=True, capture_output=True)


def remove(name: str) -> None:
    """Remove an image that was made here, and all that were built from it."""
    own = json.loads(docker("image", "inspect", name))[0]["RootFS"]["Layers"]
    for built in set(docker("image", "ls", "-q", "agentix-build").split()):
        asked = subprocess.run(["docker", "image", "inspect", built], capture_output=True, text=True, check=False)
        # Other runs remove theirs meanwhile.
        if asked.returncode == 0 and json.loads(asked.stdout)[0]["RootFS"]["Layers"][:1] == own:
            subprocess.run(["docker", "rmi", "-f", built], capture_output=True, check=False)
    docker("rmi", "-f", name)


def docker(*arguments: str) -> str:
    """What the docker command line says."""
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=True).stdout.strip()
