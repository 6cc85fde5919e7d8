"""A trial that leaves whatever can be left on a disk."""

from __future__ import annotations

import stat
import tarfile
from pathlib import Path

from published import MODEL, holding, write

KEY = "sk-canary-0123456789abcdef"

HOSTILE = r"""
hostile:
  script: |
    cd "$OUT_DIR"
    echo 1 > reward.txt; echo "the key is $LLM_API_KEY" > a.log
    ln -s /etc etc; ln -s /etc/passwd passwd; ln -s . loop; mkdir d; ln -s d dd; echo through > dd/file
    echo a > h1; ln h1 h2; ln "@/outside.txt" h3; mkfifo fifo
    python3 -c 'import socket; socket.socket(socket.AF_UNIX).bind("sock")'
    mknod null c 1 3 2>/dev/null || true
    echo nl > $'new\nline'; echo dots > ..x; echo up > '..\..\up'; echo odd > $'odd\xff'
    echo up > Twin; echo low > twin
    echo x > suid; chmod 6777 suid
    truncate -s 1T sparse
    mkdir many; (cd many; seq 1 300 | xargs touch)
"""


def test_of_what_a_hostile_trial_leaves_only_plain_files_go_and_the_rest_is_named(lab, monkeypatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    (lab.root / "outside.txt").write_text("outside\n")
    pipeline = """
  per_trial: [{uses: hostile}, {uses: redact}, {uses: archive}]
  per_experiment: [{uses: ship, with: {using: take, dest: x}}]
"""
    given = {"matrix": "{agents: [x], llm_specs: [m]}", "head": MODEL, "commands": HOSTILE}
    assert lab.run(write(lab, pipeline, **given), executor=None) == 0
    record = lab.records()["a-x-m-1"]
    assert record.reward == 1.0 and record.step_failures == ()
    assert record.redaction["refused_files"] == 1
    sent = lab.root / "sent/x/run"
    there = [path for path in sent.rglob("*") if not path.is_dir()]
    assert all(stat.S_ISREG(path.lstat().st_mode) and not path.stat().st_mode & 0o6022 for path in there)
    out = sent / "trials/a-x-m-1/out"
    names = {path.name for path in out.iterdir()}
    assert {"a.log", "reward.txt", "d", "h1", "h2", "h3", "new\nline", "..x", "..\\..\\up"} <= names
    assert {"Twin", "twin", "suid", "many"} <= names
    assert not {"etc", "passwd", "loop", "dd", "fifo", "sock", "null", "sparse"} & names
    assert (out / "d/file").read_text() == "through\n" and (out / "Twin").read_text() == "up\n"
    assert len(list((out / "many").iterdir())) == 300
    assert holding(sent, b"canary") == []
    with tarfile.open(sent / "archives/a-x-m-1.tar") as archive:
        members = archive.getmembers()
        assert all((m.isfile() or m.isdir()) and ".." not in Path(m.name).parts for m in members)
        assert sum(m.isfile() for m in members) == len([path for path in there if "a-x-m-1" in path.parts])
    said = (lab.path() / "run.log").read_text()
    assert "sparse" in said and "fifo" in said
    assert (lab.root / "outside.txt").read_text() == "outside\n"
