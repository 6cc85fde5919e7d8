"""Packing a trial into an archive: CPU time, beside `tarfile` and `tar`."""

from __future__ import annotations

import os
import resource
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

from table import Row, show

from agentix.plugins.steps.standard.archive.packing import Format, pack
from agentix.plugins.steps.standard.left_out import LeftOut, files_and_directories

SMALL, LARGE = 10_000, 256 << 20
ROUNDS = 3


def make(directory: Path) -> tuple[Path, Path]:
    """A trial of many small files, and one of a large file."""
    many, one = directory / "many", directory / "one"
    content = os.urandom(2000) + b"a line of a log\n" * 100
    for number in range(SMALL):
        place = many / str(number % 100)
        place.mkdir(parents=True, exist_ok=True)
        (place / f"{number}.log").write_bytes(content[: 100 + number % 3000])
    one.mkdir()
    with (one / "large").open("wb") as file:
        for _ in range(LARGE >> 18):
            file.write(os.urandom(1 << 16) + b"a line of a log\n" * (3 << 12))
    return many, one


def ours(top: Path, target: Path, format: Format) -> None:
    """Pack with the step's own code."""
    with target.open("wb", 1 << 20) as out:
        pack(
            out, top, files_and_directories(top, left_out=LeftOut()), format=format, prefix=b"trial", check=lambda: None
        )


def theirs(top: Path, target: Path, format: Format) -> None:
    """Pack with the standard library, without caring for the order, for owners and for times."""
    if format == "tar":
        with tarfile.open(target, "w", format=tarfile.GNU_FORMAT) as tar:
            tar.add(top, "trial")
    else:
        with tarfile.open(target, "w:gz", format=tarfile.GNU_FORMAT, compresslevel=6) as tar:
            tar.add(top, "trial")


def gnu(top: Path, target: Path) -> None:
    """Pack with tar."""
    subprocess.run(["tar", "--sort=name", "-cf", target, "-C", top.parent, top.name], check=True)


def cpu(work: Callable[[], None]) -> float:
    """CPU seconds, those of child processes too."""
    began = _used()
    work()
    return _used() - began


def _used() -> float:
    each = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in each)


def least(*works: Callable[[], None]) -> list[float]:
    """The least CPU time of each, in rounds of one after the other."""
    rounds = [[cpu(work) for work in works] for _ in range(ROUNDS)]
    return [min(times) for times in zip(*rounds, strict=True)]


def rows() -> list[Row]:
    """Measure."""
    with TemporaryDirectory(prefix="agentix-bench-") as scratch:
        many, one = make(Path(scratch))
        target = Path(scratch, "archive")
        small = least(lambda: ours(many, target, "tar"), lambda: theirs(many, target, "tar"), lambda: gnu(many, target))
        large = least(lambda: ours(one, target, "tar"), lambda: theirs(one, target, "tar"), lambda: gnu(one, target))
        packed = least(lambda: ours(one, target, "tar.gz"), lambda: theirs(one, target, "tar.gz"))
        (zst,) = least(lambda: ours(one, target, "tar.zst"))
    mib = LARGE >> 20
    return [
        Row(name="small files, tar", ours=SMALL / small[0], bare=SMALL / small[1], unit="/s", ratio_target=1),
        Row(name="small files, beside GNU tar", ours=SMALL / small[0], bare=SMALL / small[2], unit="/s"),
        Row(name="one large file, tar", ours=mib / large[0], bare=mib / large[1], unit="MiB/s", ratio_target=1),
        Row(name="one large file, beside GNU tar", ours=mib / large[0], bare=mib / large[2], unit="MiB/s"),
        Row(name="one large file, tar.gz", ours=mib / packed[0], bare=mib / packed[1], unit="MiB/s", ratio_target=0.9),
        Row(name="one large file, tar.zst", ours=mib / zst, unit="MiB/s"),
    ]


if __name__ == "__main__":
    show(rows())
