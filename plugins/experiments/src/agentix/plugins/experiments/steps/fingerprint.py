"""What decides what a step does, as one hash: its code, its inputs and the bytes of the files that they name."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentix.api import DatasetError, content_hash
from agentix.plugins.experiments.steps.templates import example, fill
from agentix.plugins.experiments.steps.transport_step import TransportStep

if TYPE_CHECKING:
    from agentix.plugins.experiments.steps.resolved import ResolvedStep

_SHORT = 12


def fingerprint(resolved: ResolvedStep) -> str:
    """Hash of a step; what only its surroundings decide (an environment variable, the network) is not in it."""
    return digest(_facts(resolved))


def fingerprint_parts(resolved: ResolvedStep) -> dict[str, str]:
    """Hashes of what a fingerprint is made of, cut short: no more than what tells which part is another one."""
    facts = _facts(resolved)
    files, inputs = facts.pop("files"), facts.pop("inputs", None) or {}
    given: dict[str, Any] = {**facts.pop("given"), **inputs}
    found = {name: digest(value) for name, value in facts.items() if name not in ("uses", "scope")}
    found |= {f"input {name}": digest(value) for name, value in given.items()}
    found |= {f"file {name}": value for name, value in files.items()}
    if resolved.command is not None:
        del found["command"]
        found |= {f"command {name}": value for name, value in resolved.command.parts().items()}
    return {name: value[:_SHORT] for name, value in found.items()}


def _facts(resolved: ResolvedStep) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "uses": resolved.spec.uses,
        "scope": resolved.scope,
        "plugin": resolved.plugin,
        "given": resolved.given,
        "files": file_hashes(resolved.given),
    }
    if resolved.command is not None:
        facts["command"] = resolved.command.fingerprint()
    if resolved.step is not None:
        facts["inputs"] = _inputs(resolved)
        step = resolved.step
        facts["code"] = code_hash(step.transport if isinstance(step, TransportStep) else step)
    if resolved.path is not None:
        facts["path"] = resolved.path
    return facts


def digest(facts: Any) -> str:
    """Hash of plain data, the same whatever the order of its keys."""
    text = json.dumps(facts, sort_keys=True, default=str, ensure_ascii=True)
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def file_hashes(value: Any) -> dict[str, str]:
    """Hash of every file and directory that a value names."""
    found = {}
    for text in _strings(value):
        path = Path(text)
        try:
            if text and (path.is_file() or path.is_dir()):
                found[text] = file_hash(path) if path.is_file() else content_hash(path)
        except (OSError, ValueError, DatasetError):  # no name of a file at all, or nothing that has a content
            continue
    return found


def file_hash(path: Path) -> str:
    """Hash of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def code_hash(plugin: object) -> str | None:
    """Hash of the Python files beside the one that a plugin's class is in; `None` where there is no such file.

    A version alone does not tell an edited plugin from the one before.
    """
    module = sys.modules.get(type(plugin).__module__)
    try:
        source = inspect.getsourcefile(module) if module is not None else None
    except TypeError:
        return None
    if source is None or not Path(source).is_file():
        return None
    own = Path(source)
    files = sorted(own.parent.rglob("*.py")) if (own.parent / "__init__.py").exists() else [own]
    return digest([[str(path.relative_to(own.parent)), file_hash(path)] for path in files])


def _inputs(resolved: ResolvedStep) -> Any:
    """The inputs with their defaults, which are part of what a step does."""
    assert resolved.step is not None
    filled = fill(resolved.given, example(resolved.scope))
    model = resolved.step.Inputs.model_validate(filled, context={"scope": resolved.scope})
    return model.model_dump(mode="json")


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _strings(item)
