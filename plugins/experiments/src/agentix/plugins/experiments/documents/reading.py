"""Files of an experiment as documents, each with its kind."""

from __future__ import annotations

import codecs
from dataclasses import dataclass
from pathlib import Path

from agentix.plugins.experiments.documents.composing import read_documents
from agentix.plugins.experiments.documents.nodes import MappingNode, Node, Scalar
from agentix.plugins.experiments.documents.problems import Problem, nearest

KINDS = ("Commands", "LLMSpec", "Experiment")
MAX_BYTES = 4 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class KindedDocument:
    """One document."""

    kind: str
    node: MappingNode
    """Without its `kind`."""


def read_bytes(file: Path, problems: list[Problem], *, blame: Problem | None = None) -> bytes | None:
    """The bytes of a file.

    Args:
        file: Which.
        problems: Where it is told that it cannot be read.
        blame: The problem to tell instead of one about the file, with the reason in place of its message.
    """
    try:
        # What a user names may be a pipe, as of a shell's <(…). What a file names may not: nobody may be writing there.
        if blame is not None and file.exists() and not file.is_file():
            raise OSError(0, "is no plain file")
        with file.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
    else:
        if len(data) <= MAX_BYTES:
            return data
        reason = f"is larger than {MAX_BYTES // 1024 // 1024} MiB, which no file of experiments is"
    if blame is None:
        problems.append(Problem(file=file, line=None, path="", message=reason))
    else:
        told = f"{file} {reason}"
        problems.append(Problem(file=blame.file, line=blame.line, path=blame.path, message=told))
    return None


def documents_of(file: Path, data: bytes, problems: list[Problem]) -> list[KindedDocument]:
    """The documents in the bytes of a file; what is none is a problem."""
    try:
        text = data.removeprefix(codecs.BOM_UTF8).decode()
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        message = f"is not UTF-8: byte 0x{data[error.start]:02x} cannot stand here; save the file as UTF-8"
        problems.append(Problem(file=file, line=line, path="", message=message))
        return []
    found = (_kinded(node, problems) for node in read_documents(file, text, problems))
    return [document for document in found if document is not None]


def _kinded(node: Node, problems: list[Problem]) -> KindedDocument | None:
    def tell(message: str, *, line: int = node.line, path: str = "kind", near: str | None = None) -> None:
        problems.append(Problem(file=node.file, line=line, path=path, message=message, nearest=near))

    if not isinstance(node, MappingNode):
        tell("a document has to be a mapping with the key kind", path="")
        return None
    entry = node.get("kind")
    kinds = ", ".join(KINDS[:-1]) + f" or {KINDS[-1]}"
    if entry is None:
        tell(f"this document needs the key: {kinds}")
        return None
    value = entry.node.value if isinstance(entry.node, Scalar) else None
    if value not in KINDS or not isinstance(value, str):
        near = nearest(str(value), KINDS) if isinstance(value, str) else None
        tell(f"has to be {kinds}", line=entry.line, near=near)
        return None
    rest = tuple(one for one in node.entries if one.key != "kind")
    return KindedDocument(kind=value, node=MappingNode(file=node.file, line=node.line, entries=rest))
