"""Records a trajectory step by step, so that what was recorded survives whatever ends the agent."""

from __future__ import annotations

import json
import os
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from agentix.models import Usage
from agentix.trajectory.models import SCHEMA_VERSION, Content, ObservationResult, Step, ToolCall
from agentix.trajectory.usage import CACHE_WRITE, to_metrics, usage_of_step

_SUFFIX = ".steps.jsonl"


class Recorder:
    """Writes one `trajectory.json`.

    Each step goes to a journal beside the file as it happens. Leaving the context, however that happens, turns the
    journal into the file in one move; what a killed process left, `recover_trajectory` turns into it later.

    Args:
        path: Where `trajectory.json` goes; its directory must exist.
        agent: Name of the agent.
        version: Its version.
        model: The model that it uses, where steps name no other.
        session_id: Id of the agent's run; a random one by default.
    """

    def __init__(
        self,
        path: Path,
        *,
        agent: str,
        version: str | None = None,
        model: str | None = None,
        session_id: str | None = None,
    ) -> None:
        self.path = path
        who = {"name": agent, "version": version or "unknown", "model_name": model}
        self._header = {
            "schema_version": SCHEMA_VERSION,
            "session_id": session_id or uuid.uuid4().hex,
            "agent": {name: value for name, value in who.items() if value is not None},
        }
        self._journal: BinaryIO | None = None
        self._steps = 0
        self._calls: frozenset[str] = frozenset()
        self.usage = Usage(turns=0, tool_calls=0)
        """The sum of what was recorded so far."""

    def __enter__(self) -> Self:
        self._journal = _journal(self.path).open("wb")
        self._append(self._header)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None
            recover_trajectory(self.path)

    def message(self, source: str, text: Content, *, extra: Mapping[str, Any] | None = None) -> None:
        """Record what the `user` or the `system` said."""
        self._step({"source": source, "message": text, "extra": extra})

    def turn(
        self,
        text: Content = "",
        *,
        reasoning: str | None = None,
        tool_calls: Sequence[ToolCall] = (),
        usage: Usage | None = None,
        model: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        """Record a turn of the agent; what its calls give back follows with `observe`."""
        self._step(
            {
                "source": "agent",
                "model_name": model,
                "message": text,
                "reasoning_content": reasoning,
                "tool_calls": [call.model_dump() for call in tool_calls] or None,
                "metrics": to_metrics(usage) if usage is not None else None,
                "extra": extra,
            }
        )

    def observe(self, content: Content | None, *, call_id: str | None = None) -> None:
        """Record what a tool call of the last step, or something that was no call, gave back.

        Raises:
            ValueError: There is no step yet, or it has no such call.
        """
        if not self._steps:
            raise ValueError("nothing can be observed before the first step")
        if call_id is not None and call_id not in self._calls:
            raise ValueError(f"{call_id!r} is no tool call of the last step")
        result = ObservationResult(source_call_id=call_id, content=content)
        self._append({"observed": result.model_dump(exclude_none=True)})

    def _step(self, content: dict[str, Any]) -> None:
        data = {"step_id": self._steps + 1, "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds")}
        step = Step.model_validate({**data, **{k: v for k, v in content.items() if v is not None}})
        self._append(step.model_dump(exclude_unset=True))
        self._steps += 1
        self._calls = frozenset(call.tool_call_id for call in step.tool_calls or ())
        self.usage = self.usage + usage_of_step(step)

    def _append(self, line: Mapping[str, Any]) -> None:
        if self._journal is None:
            raise ValueError("the recorder is not open")
        self._journal.write(_line(line))
        self._journal.flush()


def recover_trajectory(path: Path) -> bool:
    """Turn the journal of a recorder into its file; a last line that was cut off is dropped.

    Returns:
        Whether there was a journal.

    Raises:
        OSError: The file cannot be written.
    """
    journal = _journal(path)
    if not journal.exists():
        return False
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex}")
    try:
        with journal.open("rb") as source, temporary.open("wb") as target:
            _compose(source, target)
            target.flush()
            os.fsync(target.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    journal.unlink()
    return True


def _compose(source: BinaryIO, target: BinaryIO) -> None:
    lines = _lines(source)
    header = next(lines, None) or {"schema_version": SCHEMA_VERSION, "agent": {"name": "unknown"}}
    target.write(_line(header).rstrip(b"\n")[:-1] + b',\n"steps": [')
    total = Usage()
    count = 0
    for step in _merged(lines):
        target.write((b",\n" if count else b"\n") + _line(step).rstrip(b"\n"))
        total = total + usage_of_step(Step.model_validate(step))
        count += 1
    target.write(b"\n],\n" + b'"final_metrics": ' + _line(_totals(total, count)).rstrip(b"\n") + b"}\n")


def _merged(lines: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    step: dict[str, Any] | None = None
    for line in lines:
        if "observed" not in line:
            if step is not None:
                yield step
            step = line
        elif step is not None:
            step.setdefault("observation", {"results": []})["results"].append(line["observed"])
    if step is not None:
        yield step


def _totals(total: Usage, steps: int) -> dict[str, Any]:
    metrics = to_metrics(total)
    final = {f"total_{name}": value for name, value in metrics.items() if name != "extra"}
    if total.cache_write is not None:
        final["extra"] = {CACHE_WRITE: total.cache_write}
    return {**final, "total_steps": steps}


def _lines(source: BinaryIO) -> Iterator[dict[str, Any]]:
    for line in source:
        with suppress(ValueError):
            if line.endswith(b"\n"):
                yield json.loads(line)


def _line(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace") + b"\n"


def _journal(path: Path) -> Path:
    return path.with_name(path.name + _SUFFIX)
