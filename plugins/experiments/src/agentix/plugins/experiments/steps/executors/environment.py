"""The variables that tell an external executor which trial to run."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from agentix.api import LLM, AgentUse, Case, TrialWork

_UNITS = {"k": 1 / 1024, "m": 1.0, "g": 1024.0, "t": 1024.0 * 1024}
_DECLARED: Mapping[str, tuple[str, str]] = {
    "AGENT_USER": ("agent", "user"),
    "VERIFIER_USER": ("verifier", "user"),
    "AGENT_TIMEOUT_SEC": ("agent", "timeout_sec"),
    "VERIFIER_TIMEOUT_SEC": ("verifier", "timeout_sec"),
    "BUILD_TIMEOUT_SEC": ("environment", "build_timeout_sec"),
    "CPUS": ("environment", "cpus"),
    "MEMORY_MB": ("environment", "memory_mb"),
    "STORAGE_MB": ("environment", "storage_mb"),
    "GPUS": ("environment", "gpus"),
    "ALLOW_INTERNET": ("environment", "allow_internet"),
}
_WITH_UNITS = {"MEMORY_MB": "memory", "STORAGE_MB": "storage"}


def trial_environment(work: TrialWork, *, out_dir: Path, work_dir: Path) -> dict[str, str]:
    """Every variable of the contract; what the case does not declare is there and empty."""
    case = work.case
    limit = None if work.limits is None else work.limits.agent_s
    found = {
        "CASE_DIR": str(case.directory or ""),
        "CASE_NAME": case.name,
        "OUT_DIR": str(out_dir),
        "WORK_DIR": str(work_dir),
        "TRIAL_ID": work.trial.trial_id,
        **agent_environment(work.agent_use),
        **declared_limits(case),
        **llm_environment(work.llm),
    }
    if limit is not None:
        found["AGENT_TIMEOUT_SEC"] = _word(limit)
    for name in ("max_tool_calls", "max_tokens", "max_cost_usd", "max_turns"):
        found[name.upper()] = _word(None if work.limits is None else getattr(work.limits, name))
    return found


def agent_environment(use: AgentUse) -> dict[str, str]:
    """Who the agent is. The kind is `command`, or `builtin` for the two that need no model, else `agent`."""
    kind = "command" if use.command is not None else "builtin" if use.ref in ("oracle", "nop") else "agent"
    return {"AGENT_KIND": kind, "AGENT_NAME": use.ref, "AGENT_COMMAND": use.command or ""}


def llm_environment(llm: LLM | None) -> dict[str, str]:
    """Where the model is. The key is handed over apart, as a secret."""
    return {
        "LLM_PROVIDER": "" if llm is None else llm.api or "",
        "LLM_BASE_URL": "" if llm is None else llm.base_url or "",
        "LLM_MODEL": "" if llm is None else llm.model,
        "LLM_API_KEY": "",
        "LLM_PARAMETERS": "" if llm is None or not llm.parameters else json.dumps(dict(llm.parameters), default=str),
    }


def declared_limits(case: Case) -> dict[str, str]:
    """What task.toml declares of times and resources, as its own words say it."""
    file: dict[str, Any] = {}
    if case.directory is not None:
        try:
            file = tomllib.loads((case.directory / "task.toml").read_text("utf-8-sig"))
        except (OSError, ValueError):
            # What is wrong with the file is for the executor to say, which knows the format.
            file = {}
    found = {}
    for name, (table, key) in _DECLARED.items():
        value = _table(file, table).get(key)
        if value is None and name in _WITH_UNITS:
            value = _megabytes(_table(file, table).get(_WITH_UNITS[name]))
        if value is None and name == "ALLOW_INTERNET":
            mode = _table(file, table).get("network_mode")
            value = None if not isinstance(mode, str) else mode == "public"
        found[name] = _word(value)
    return found


def _table(file: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = file.get(name)
    return found if isinstance(found, dict) else {}


def _megabytes(value: object) -> float | None:
    """Of a size such as `2G`."""
    if not isinstance(value, str) or not value:
        return None
    text = value.strip().lower().removesuffix("b").removesuffix("i")
    unit = _UNITS.get(text[-1:])
    try:
        return float(text[:-1]) * unit if unit is not None else float(text) / (1 << 20)
    except ValueError:
        return None


def _word(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)
