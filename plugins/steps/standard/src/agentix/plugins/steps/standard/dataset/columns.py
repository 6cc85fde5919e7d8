"""The columns of a row. They are the same in every dataset, whatever its run was."""

from __future__ import annotations

from typing import Any, Literal

Type = Literal["string", "int64", "float64", "bool", "strings", "metrics"]

COLUMNS: dict[str, tuple[Type, str]] = {
    "trial_id": ("string", "names the trial"),
    "case": ("string", "the task, as the experiment calls it"),
    "case_sha256": ("string", "hash of the task's content"),
    "agent": ("string", "who solved it"),
    "agent_version": ("string", "its version, as it said itself"),
    "llm_spec": ("string", "the model, as the experiment calls it"),
    "model": ("string", "the model, as its provider calls it"),
    "index": ("int64", "which of the trials of this task, agent and model, from 1"),
    "attempts": ("int64", "how many it took; infrastructure failures are tried again"),
    "reward": ("float64", "what the scorer gave; null where it gave nothing"),
    "resolved": ("bool", "whether the task counts as solved; null without a reward"),
    "metrics": ("metrics", "more numbers of the scorer, by name"),
    "failure_code": ("string", "why there is no reward"),
    "failure_detail": ("string", "the same, finer"),
    "failure_message": ("string", "the same, in words"),
    "ended": ("string", "what ended the agent, such as completed, timeout, max_turns"),
    "input_tokens": ("int64", "sent to the model, without those of the cache"),
    "output_tokens": ("int64", "received from it"),
    "cache_read_tokens": ("int64", "read from its cache"),
    "cache_write_tokens": ("int64", "written to its cache"),
    "cost_usd": ("float64", "US dollars"),
    "turns": ("int64", "of the agent"),
    "tool_calls": ("int64", "of the agent"),
    "seconds": ("float64", "of the whole trial"),
    "at": ("string", "when it ended, in UTC"),
    "image_digest": ("string", "of the image that it ran in"),
    "dropped": ("bool", "whether what it left is kept from publication; such a row has no patch and no trajectory"),
    "redactions": ("int64", "how many secrets and addresses were taken out of what the trial left"),
    "notes": ("strings", "what else there is to know"),
    "patch": ("string", "what the agent changed"),
    "patch_encoding": ("string", "utf-8, or base64 where the patch is no UTF-8"),
    "patch_bytes": ("int64", "its size; where there is no text it was too large for a row"),
    "trajectory": ("string", "what the agent did, as JSON in the ATIF format"),
    "trajectory_bytes": (
        "int64",
        "its size; where there is no text it was too large for a row, or no UTF-8",
    ),
    "archive": ("string", "the trial's archive, relative to the run"),
}
"""By name: type, and what it is. A null is always something that is not known or not there."""


def features() -> list[dict[str, Any]]:
    """As the card of a dataset on the hub declares them, so that no reader has to guess from the first rows."""
    metric = [{"name": "name", "dtype": "string"}, {"name": "value", "dtype": "float64"}]
    listed: dict[str, dict[str, Any]] = {"strings": {"list": "string"}, "metrics": {"list": metric}}
    return [{"name": name, **listed.get(kind, {"dtype": kind})} for name, (kind, _) in COLUMNS.items()]


def arrow_schema(pyarrow: Any) -> Any:
    """As a table in memory has them."""
    types = {
        "string": pyarrow.string(),
        "int64": pyarrow.int64(),
        "float64": pyarrow.float64(),
        "bool": pyarrow.bool_(),
        "strings": pyarrow.list_(pyarrow.string()),
        "metrics": pyarrow.list_(pyarrow.struct([("name", pyarrow.string()), ("value", pyarrow.float64())])),
    }
    return pyarrow.schema([(name, types[kind]) for name, (kind, _) in COLUMNS.items()])
