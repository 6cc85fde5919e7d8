"""Taking secrets out of 200 MB of logs with 20 known values, against a copy that is hashed; in CPU time."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from table import Row, show

from agentix.api import RedactionRules, Redactor, Secrets, scan

MB = 1_000_000
SIZE, LARGE = 200 * MB, 1000 * MB
VALUES = tuple(f"canary-{number:02}-{hashlib.sha256(bytes([number])).hexdigest()[:32]}" for number in range(20))
WORDS = Path(json.__file__).read_text().split()


def log(seed: int, size: int) -> Iterator[bytes]:
    """Lines of a log, one in 5,000 of which holds a known value and one in 2,000 an address."""
    chance = random.Random(seed)
    made = 0
    while made < size:
        lines = []
        for number in range(5000):
            words = " ".join(chance.choices(WORDS, k=12))
            lines.append(
                f"2026-01-01T00:00:{number % 60:02}Z INFO worker[{number}]: {words} id={chance.getrandbits(64):016x}"
            )
        lines[100] += f" key={chance.choice(VALUES)}"
        lines[200] += lines[2200] + " from 192.0.2.17:443"
        block = ("\n".join(lines) + "\n").encode()
        # Making random text costs more than redacting it: each block is taken several times.
        for _ in range(10):
            made += len(block)
            yield block


def trajectory(seed: int, size: int) -> Iterator[bytes]:
    """Lines of JSON as agents leave them: messages with escaped line breaks, arguments in JSON in JSON."""
    chance = random.Random(seed)
    made = 0
    while made < size:
        steps = []
        for number in range(400):
            text = "\n".join(" ".join(chance.choices(WORDS, k=10)) for _ in range(20))
            if number == 7:
                text += f"\n+ curl -H 'Authorization: Bearer {chance.choice(VALUES)}' https://api.example/v1"
            call = {"name": "bash", "arguments": json.dumps({"command": f"cat > a.py <<E\n{text[:300]}\nE"})}
            steps.append(json.dumps({"step": number, "message": text, "tool_call": call, "tokens": number * 3}))
        block = ("\n".join(steps) + "\n").encode()
        for _ in range(10):
            made += len(block)
            yield block


def copied(source: Path, target: Path) -> None:
    """The bare loop: a copy, and a hash over it."""
    digest = hashlib.sha256()
    with source.open("rb") as file, target.open("wb") as copy:
        while data := file.read(1 << 20):
            digest.update(data)
            copy.write(data)


def speed(size: int, began: float) -> float:
    """MB in a second of CPU time."""
    return size / MB / (time.process_time() - began)


def growth(source: Path, target: Path) -> float:
    """MiB by which a process grows that redacts a file."""
    program = (
        "import sys; from pathlib import Path; from agentix.api import Redactor, Secrets\n"
        "used = lambda: int(Path('/proc/self/status').read_text().split('VmHWM:')[1].split()[0])\n"
        "before, paths = used(), [Path(path) for path in sys.argv[1:3]]\n"
        "Redactor(Secrets(sys.argv[3:])).file(*paths)\n"
        "print((used() - before) / 1024)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(source), str(target), *VALUES], stdout=subprocess.PIPE, check=True
    )
    return float(done.stdout)


def rows() -> list[Row]:
    """Measure."""
    found = []
    with tempfile.TemporaryDirectory() as place:
        source, target = Path(place, "agent.log"), Path(place, "copy")
        secrets = Secrets(VALUES)
        for what, made, ips, wanted in (
            ("a log", log, False, 40),
            ("a log, addresses too", log, True, None),
            ("a trajectory, addresses too", trajectory, True, 30),
        ):
            with source.open("wb") as file:
                file.writelines(made(1, SIZE))
            size = source.stat().st_size
            began = time.process_time()
            copied(source, target)
            bare, began = speed(size, began), time.process_time()
            result = Redactor(secrets, rules=RedactionRules(ips_in_logs=ips)).file(source, target)
            ours = speed(size, began)
            assert result.counts["known_value"] >= size // (2 * MB), result
            found.append(Row(name=f"redacting {what}", ours=ours, unit="MB/s", target=wanted, bare=bare))
            began = time.process_time()
            assert scan(target, secrets) == []
            found.append(Row(name=f"the last scan of {what}", ours=speed(size, began), unit="MB/s", bare=bare))
        with source.open("wb") as file:
            file.writelines(log(2, LARGE))
        grown = growth(source, target)
    found.append(
        Row(name="redacting a log of 1 GB, growth of memory", ours=grown, unit="MiB", target=64, better="less")
    )
    return found


if __name__ == "__main__":
    show(rows())
