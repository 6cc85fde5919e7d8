from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import pytest

from agentix.api import Case, Failure, FailureCode, Rollout, Scope, content_hash
from agentix.plugins.experiments.cases import with_case
from agentix.plugins.experiments.commands import Command, CommandRunner
from agentix.plugins.experiments.documents import StepSpec
from agentix.plugins.experiments.gate import CachedVerdict, GateResult, GateSetting, VerdictCache, run_gate
from agentix.plugins.experiments.steps import resolve_step

pytestmark = pytest.mark.anyio


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request):
    return request.param


def script(name: str, text: str) -> Command:
    return Command(name=name, form="script", script=text, origin=Path("file.yaml"))


def solvable(case: Case, agent: str) -> float | Failure:
    """The reward that the case's own files promise."""
    assert case.directory is not None
    return float((case.directory / agent).read_text())


class Together:
    """Holds everybody until so many are there, once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.there = anyio.Event()

    async def arrived(self, running: int) -> None:
        if running >= self.count:
            self.there.set()
        with anyio.fail_after(60):
            await self.there.wait()


class Gate:
    """One gate after another, over the same cases, cache and run directory."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.probed: list[str] = []
        self.said: list[str] = []
        self.reward: Callable[[Case, str], float | Failure] = solvable
        self.setup: dict[str, Any] = {"executor": "rollout", "provider": {"ref": "docker"}}
        self.commands: dict[str, Command] = {}
        self.running = self.most = 0
        self.together = Together(1)

    async def case(self, name: str, *, oracle: float = 1, nop: float = 0) -> Case:
        source = self.root / "sources" / name
        source.mkdir(parents=True, exist_ok=True)
        (source / "name").write_text(name)
        for agent, reward in (("oracle", oracle), ("nop", nop)):
            (source / agent).write_text(str(reward))
        case = Case(
            name=name, label=f"cases/{name}", source="local", dataset="harbor", instance={}, pin={"path": str(source)}
        )
        return await with_case(case, source, snapshots=self.root / "snapshots")

    async def probe(self, case: Case, agent: str, *, index: int, directory: Path) -> Rollout:
        assert directory.is_relative_to(self.root / "run" / "gate")
        assert [entry async for entry in anyio.Path(directory).iterdir()] == []
        self.probed.append(f"{case.name} {agent} {index}")
        self.running += 1
        self.most = max(self.most, self.running)
        await self.together.arrived(self.running)
        self.running -= 1
        reward = self.reward(case, agent)
        if isinstance(reward, Failure):
            return Rollout(case.name, failure=reward)
        return Rollout(case.name, score={"reward": reward})

    async def run(self, *cases: Case, steps: list[dict] | None = None, **values) -> GateResult:
        self.probed.clear()
        self.said.clear()
        specs = [{"uses": "admission"}] if steps is None else steps
        resolved = tuple(
            resolve_step(StepSpec.model_validate(spec), Scope.PER_CASE, self.commands, key=f"step-{number}")
            for number, spec in enumerate(specs)
        )
        async with CommandRunner() as runner:
            setting = GateSetting(
                **{
                    "steps": resolved,
                    "run_id": "nightly",
                    "run_dir": self.root / "run",
                    "experiment": "spring",
                    "snapshots": self.root / "snapshots",
                    "cache": self.root / "gate-cache.json",
                    "setup": self.setup,
                    "run_probe": self.probe,
                    "runner": runner,
                    "say": self.said.append,
                    "backoff": lambda _: 0.0,
                }
                | values
            )
            return await run_gate(cases, setting)


@pytest.fixture
def gate(tmp_path) -> Gate:
    return Gate(tmp_path)


async def test_a_case_that_can_be_measured_is_admitted(gate):
    case = await gate.case("good")
    result = await gate.run(case)
    assert (result.cases, result.stopped, result.rejected) == ((case,), None, {})
    assert gate.said == [
        "case cases/good: oracle [1 1] want >= 1.00 -> PASS",
        "case cases/good: nop [0 0] want <= 0.00 -> PASS",
    ]
    assert result.lines == tuple(gate.said)
    assert gate.probed == ["good oracle 1", "good oracle 2", "good nop 1", "good nop 2"]


@pytest.mark.parametrize(("oracle", "nop", "line"), [(0.5, 0, "oracle [0.5 0.5] want >= 1.00"), (1, 1, "nop [1 1]")])
async def test_a_rejected_case_stops_the_run_once_all_are_known(gate, oracle, nop, line):
    bad, good = await gate.case("bad", oracle=oracle, nop=nop), await gate.case("good")
    result = await gate.run(bad, good)
    assert result.cases == (good,) and "CASE_NOT_ADMITTED" in result.rejected["cases/bad"]
    assert result.stopped is not None and line in result.stopped
    assert any(line in said and said.endswith("FAIL") for said in gate.said)


async def test_a_rejection_of_several_lines_is_one_line_of_its_case(gate):
    text = "printf 'no licence\\n  in it:\\nask the author\\n' >&2; exit 1"
    gate.commands["look"] = script("look", text)
    result = await gate.run(await gate.case("bad"), steps=[{"uses": "look"}])
    said = "look: no licence; in it: ask the author"
    assert result.rejected == {"cases/bad": said}
    assert gate.said == [f"case cases/bad: {said} -> FAIL"]
    assert result.stopped is not None and "\n" not in result.stopped


async def test_skip_leaves_the_case_out_and_goes_on(gate):
    bad, good = await gate.case("bad", oracle=0), await gate.case("good")
    result = await gate.run(bad, good, steps=[{"uses": "admission", "on_failure": "skip"}])
    assert result.cases == (good,) and list(result.rejected) == ["cases/bad"] and result.stopped is None
    nothing = await gate.run(bad, steps=[{"uses": "admission", "on_failure": "skip"}])
    assert nothing.cases == () and nothing.stopped == "the gate left out every case"


async def test_warn_and_require_any_let_the_case_pass(gate):
    bad = await gate.case("bad", oracle=0)
    warned = await gate.run(bad, steps=[{"uses": "admission", "on_failure": "warn"}])
    assert warned.cases == (bad,) and "CASE_NOT_ADMITTED" in warned.warnings[0]
    any_case = await gate.run(bad, steps=[{"uses": "admission", "with": {"require": "any"}}])
    assert any_case.cases == (bad,) and any_case.warnings == ()


async def test_an_oracle_that_fails_by_itself_is_a_verdict(gate):
    case = await gate.case("slow")
    gate.reward = lambda case, agent: (
        Failure(code=FailureCode.AGENT_TIMEOUT, message="slow") if agent == "oracle" else 0.0
    )
    result = await gate.run(case)
    assert "oracle [0 0] want >= 1.00 -> FAIL" in result.rejected["cases/slow"]


async def test_a_probe_that_cannot_run_is_an_error_is_never_cached_and_stops_at_once(gate):
    cases = [await gate.case(f"c{n}") for n in range(4)]
    gate.reward = lambda case, agent: Failure(code=FailureCode.HOST_ERROR, message="no engine answers")
    result = await gate.run(*cases)
    assert result.cases == () and gate.probed == ["c0 oracle 1"]
    assert result.stopped is not None and "HOST_ERROR: no engine answers" in result.stopped
    assert "3 not checked" in result.stopped and "NOT_ADMITTED" not in result.stopped
    assert result.stopped.startswith("1 of 1 case could not be checked: ") and result.rejected == {}
    skipped = await gate.run(cases[0], steps=[{"uses": "admission", "on_failure": "skip"}])
    assert (skipped.rejected, list(skipped.unknown), skipped.cases) == ({}, ["cases/c0"], ())
    assert not (gate.root / "gate-cache.json").exists()
    gate.reward = solvable
    assert len((await gate.run(*cases)).cases) == 4


async def test_a_probe_that_cannot_run_is_tried_again_where_the_step_says_so(gate):
    case = await gate.case("c")
    answers: list[float | Failure] = [Failure(code=FailureCode.HOST_ERROR, message="busy"), 1.0, 1.0, 0.0, 0.0]
    gate.reward = lambda case, agent: answers.pop(0)
    result = await gate.run(case, steps=[{"uses": "admission", "retries": 1}])
    assert result.cases == (case,) and gate.probed[:2] == ["c oracle 1", "c oracle 1"]


async def test_a_verdict_is_asked_for_once_and_again_with_regate(gate):
    good, bad = await gate.case("good"), await gate.case("bad", oracle=0)
    first = await gate.run(good, bad)
    known = await gate.run(good, bad, run_id="another", run_dir=gate.root / "run" / "other")
    assert gate.probed == [] and known.cases == first.cases and known.rejected == first.rejected
    assert gate.said[0] == "case cases/good: oracle [1 1] want >= 1.00 -> PASS (known)"
    await gate.run(good, bad, regate=True)
    assert len(gate.probed) == 8


async def test_what_decides_a_verdict_invalidates_it(gate, tmp_path):
    case = await gate.case("c")
    adapter = tmp_path / "harbor.sh"
    adapter.write_text("one")
    gate.setup["adapter"] = str(adapter)

    async def probed(**values) -> bool:
        await gate.run(case, **values)
        return bool(gate.probed)

    assert await probed() and not await probed()
    adapter.write_text("two")
    assert await probed() and not await probed()
    gate.setup["provider"] = {"ref": "docker", "options": {"network": "none"}}
    assert await probed() and not await probed()
    assert await probed(steps=[{"uses": "admission", "with": {"trials": 3}}])
    case = await gate.case("c", nop=0.0)
    assert await probed() and not await probed()  # "0.0" are other bytes than "0"


async def test_cases_of_the_same_bytes_have_one_verdict(gate):
    one = await gate.case("one")
    twin = Case(name="twin", label="twin", source="local", dataset="harbor", instance={})
    twin = await with_case(twin, one.directory, snapshots=gate.root / "snapshots")
    await gate.run(one)
    assert (await gate.run(twin)).cases == (twin,) and gate.probed == []


async def test_a_case_without_a_hash_is_checked_every_time(gate):
    case = Case(name="x", label="x", source="dataset", dataset="swe", instance={"instance_id": "x"})
    gate.reward = lambda case, agent: float(agent == "oracle")
    for _ in range(2):
        assert (await gate.run(case)).cases == (case,)
        assert len(gate.probed) == 4


FIX = "echo round $ATTEMPT: $REJECTED_BY: $REJECTION >> $CASE_DIR/../told; echo 1 > $CASE_DIR/oracle"


async def test_a_repair_gives_the_case_a_new_hash_and_its_verdict_is_kept_under_that(gate):
    case = await gate.case("c", oracle=0)
    gate.commands["mend"] = script("mend", FIX)
    steps = [{"uses": "admission", "fix": "mend"}]
    result = await gate.run(case, steps=steps)
    (repaired,) = result.cases
    assert repaired.sha256 != case.sha256 and repaired.directory is not None
    assert content_hash(repaired.directory) == repaired.sha256 and (repaired.directory / "oracle").read_text() == "1\n"
    assert f"case cases/c: repaired in place, {case.sha256[:12]} -> {repaired.sha256[:12]}" in gate.said
    assert (gate.root / "sources" / "c" / "oracle").read_text() == "0"
    verdicts = json.loads((gate.root / "gate-cache.json").read_text())["verdicts"]
    assert {v["sha256"]: v["ok"] for v in verdicts.values()} == {case.sha256: False, repaired.sha256: True}
    (told,) = gate.root.glob("run/gate/*/*/repair-1/told")
    assert told.read_text().startswith("round 1: admission: CASE_NOT_ADMITTED: oracle [0 0]")
    assert content_hash(case.directory) == case.sha256


async def test_a_resumed_run_goes_on_with_the_bytes_that_it_has_repaired(gate):
    case = await gate.case("c", oracle=0)
    gate.commands["mend"] = script("mend", FIX + "; date +%N$RANDOM > $CASE_DIR/when")
    steps = [{"uses": "admission", "fix": "mend"}]
    first = await gate.run(case, steps=steps)
    again = await gate.run(case, steps=steps)
    assert again.cases == first.cases and gate.probed == []
    fresh = await gate.run(case, steps=steps, run_dir=gate.root / "run" / "gate" / "fresh")
    assert fresh.cases[0].sha256 != first.cases[0].sha256


async def test_a_rejection_that_is_known_is_repaired_without_asking_again(gate):
    case = await gate.case("c", oracle=0)
    log = gate.root / "audited"
    gate.commands["audit"] = script("audit", f"echo x >> {log}; grep -q 1 $CASE_DIR/oracle || {{ echo bad; exit 1; }}")
    gate.commands["mend"] = script("mend", "echo $REJECTION > $CASE_DIR/told; echo 1 > $CASE_DIR/oracle")
    steps = [{"uses": "audit", "fix": "mend"}]
    first = await gate.run(case, steps=steps)
    assert log.read_text().split() == ["x", "x"]
    fresh = await gate.run(case, steps=steps, run_id="fresh", run_dir=gate.root / "run" / "gate" / "fresh")
    assert log.read_text().split() == ["x", "x"]
    assert [c.sha256 for c in fresh.cases] == [c.sha256 for c in first.cases] and fresh.found == first.found
    assert "case cases/c: audit: bad -> FAIL (known)" in gate.said
    assert "case cases/c: audit: repair 1/1 with mend" in gate.said
    assert (fresh.cases[0].directory / "told").read_text() == "bad\n"
    await gate.run(case, steps=steps, regate=True, run_dir=gate.root / "run" / "gate" / "third")
    assert len(log.read_text().split()) == 4


async def test_a_verdict_is_kept_before_the_repair_that_is_interrupted(gate):
    case = await gate.case("c", oracle=0)
    log, up = gate.root / "audited", gate.root / "up"
    os.mkfifo(up)
    gate.commands["audit"] = script("audit", f"echo x >> {log}; exit 1")
    gate.commands["mend"] = script("mend", f"echo up > {up}; exec sleep 300")
    steps = [{"uses": "audit", "fix": "mend"}]
    async with anyio.create_task_group() as group:
        group.start_soon(lambda: gate.run(case, steps=steps))
        await anyio.to_thread.run_sync(up.read_bytes)
        group.cancel_scope.cancel()
    gate.commands["mend"] = script("mend", "exit 1")
    await gate.run(case, steps=steps)
    assert log.read_text().split() == ["x"]


async def test_write_back_changes_the_source_and_leaves_what_is_no_content(gate):
    case = await gate.case("c", oracle=0)
    source = gate.root / "sources" / "c"
    (source / ".git").mkdir()
    (source / ".git" / "HEAD").write_text("main")
    gate.commands["mend"] = script(
        "mend", "cd $CASE_DIR; echo 1 > oracle; mkdir deep; ln -s ../oracle deep/link; echo x > run; chmod +x run"
    )
    result = await gate.run(case, steps=[{"uses": "admission", "fix": "mend", "fix_writeback": True}])
    assert content_hash(source) == result.cases[0].sha256
    assert (source / ".git" / "HEAD").read_text() == "main" and (source / "deep" / "link").is_symlink()
    assert sorted(p.name for p in source.iterdir()) == [".git", "deep", "name", "nop", "oracle", "run"]


async def test_a_source_that_was_edited_meanwhile_is_not_written_over(gate):
    case = await gate.case("c", oracle=0)
    source = gate.root / "sources" / "c"
    gate.commands["mend"] = script("mend", f"echo 1 > $CASE_DIR/oracle; echo mine > {source}/notes")
    result = await gate.run(case, steps=[{"uses": "admission", "fix": "mend", "fix_writeback": True}])
    assert len(result.cases) == 1 and (source / "oracle").read_text() == "0"
    assert "was edited while it was checked" in result.warnings[0]


async def test_a_repair_may_take_several_rounds(gate):
    case = await gate.case("c", oracle=0)
    gate.commands["mend"] = script("mend", "cd $CASE_DIR; test -e half && echo 1 > oracle; touch half")
    one = await gate.run(case, steps=[{"uses": "admission", "fix": "mend"}])
    assert one.cases == () and len(gate.probed) == 8
    two = await gate.run(case, steps=[{"uses": "admission", "fix": "mend", "fix_attempts": 2}], regate=True)
    assert len(two.cases) == 1 and len(gate.probed) == 12


async def test_after_a_repair_the_checks_before_it_are_made_again(gate):
    case = await gate.case("c", oracle=1)
    gate.commands["mend"] = script("mend", "cd $CASE_DIR; touch licence; echo 0.5 > oracle")
    gate.commands["licensed"] = script("licensed", "test -e $CASE_DIR/licence || { echo no licence; exit 1; }")
    result = await gate.run(case, steps=[{"uses": "admission"}, {"uses": "licensed", "fix": "mend"}])
    assert result.cases == () and "oracle [0.5 0.5]" in result.rejected["cases/c"]
    assert "case cases/c: licensed: no licence -> FAIL" in gate.said


@pytest.mark.parametrize(
    ("text", "said"), [("true", "the repair changed nothing"), ("echo cannot >&2; exit 3", "exit status 3: cannot")]
)
async def test_a_repair_that_does_nothing_is_said_and_the_rejection_stands(gate, text, said):
    case = await gate.case("c", oracle=0)
    gate.commands["mend"] = script("mend", text)
    result = await gate.run(case, steps=[{"uses": "admission", "fix": "mend"}])
    assert result.cases == () and any(said in line for line in gate.said) and len(gate.probed) == 4


async def test_as_many_cases_are_checked_at_once_as_asked_for_and_order_is_kept(gate):
    cases = [await gate.case(f"c{n}") for n in range(6)]
    gate.together = Together(3)
    result = await gate.run(*cases, concurrency=3)
    assert result.cases == tuple(cases) and gate.most == 3
    gate.most, gate.together = 0, Together(1)
    await gate.run(*cases, regate=True)
    assert gate.most == 1


async def test_an_interrupted_gate_keeps_what_it_has_found(gate):
    one, two = await gate.case("one"), await gate.case("two")
    with anyio.CancelScope() as scope:

        def stop(case: Case, agent: str) -> float:
            if case.name == "two":
                scope.cancel()
            return solvable(case, agent)

        gate.reward = stop
        await gate.run(one, two)
    gate.reward = solvable
    await gate.run(one, two)
    assert {line.split()[0] for line in gate.probed} == {"two"}


def _verdict(name: str) -> CachedVerdict:
    return CachedVerdict(ok=True, case=name, sha256="0", step="s", run_id="r", at="now")


FILL = """
import sys
from pathlib import Path
from agentix.plugins.experiments.gate import CachedVerdict, VerdictCache
for number in range(40):
    verdict = CachedVerdict(ok=True, case="c", sha256="0", step="s", run_id="r", at="now")
    VerdictCache(Path(sys.argv[1])).add({f"{sys.argv[2]}-{number}": verdict})
"""


def test_runs_at_the_same_time_lose_none_of_each_others_verdicts(tmp_path):
    path = tmp_path / "gate-cache.json"
    workers = [subprocess.Popen([sys.executable, "-c", FILL, str(path), str(worker)]) for worker in range(3)]
    assert [worker.wait(timeout=240) for worker in workers] == [0, 0, 0]
    assert len(VerdictCache(path).read()) == 120
    assert [p.name for p in tmp_path.glob("*.tmp")] == []


@pytest.mark.parametrize(
    "content", [b"", b"{", b'{"schema_version": 2, "verdicts": {}}', b'{"verdicts": {"k": {"ok": 1}}}']
)
def test_a_damaged_cache_knows_nothing_and_is_set_aside(tmp_path, content):
    path = tmp_path / "gate-cache.json"
    path.write_bytes(content)
    cache = VerdictCache(path)
    assert cache.read() == {}
    assert cache.notice is not None and cache.notice.startswith(f"{path} is damaged or of a newer version (")
    VerdictCache(path).add({"k": _verdict("c")})
    assert list(cache.read()) == ["k"] and cache.notice is None
    assert path.with_name("gate-cache.json.damaged").read_bytes() == content


async def test_verdicts_that_cannot_be_read_any_more_are_told(gate):
    case, told = await gate.case("c"), []
    await gate.run(case, warn=told.append)
    path = gate.root / "gate-cache.json"
    path.write_bytes(path.read_bytes()[:-9])
    await gate.run(case, warn=told.append)
    assert len(gate.probed) == 4 and len(told) == 1 and "no verdict of an earlier run is known" in told[0]
    await gate.run(case, warn=told.append)
    assert gate.probed == [] and len(told) == 1
