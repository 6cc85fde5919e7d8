"""What the documents have to agree on beyond the shape of each."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from agentix.api import FailureCode
from agentix.plugins.experiments.documents.nodes import Entry, ListNode, MappingNode, Node, Scalar, place_of
from agentix.plugins.experiments.documents.paths import Part
from agentix.plugins.experiments.documents.problems import Problem, nearest
from agentix.plugins.experiments.documents.shorthand import SCOPES, SOURCE_KEYS, source_of

_NO_COMMAND = "no command has this name"
_FORMS = ("run", "script", "uses")
_NEEDED = {"local": ("path",), "git": ("repo",), "hf": ("repo",), "dataset": ("dataset",)}
_RETRIED = tuple(code.value for code in FailureCode if code.value not in ("CANCELLED", "REDACT_FAILED", "STEP_FAILED"))


def command_problems(document: MappingNode, name: str, command: Node) -> Iterator[Problem]:
    """What is wrong with how a command says what it is."""
    if not isinstance(command, MappingNode):
        return
    forms = [key for key in _FORMS if command.get(key) is not None]
    if len(forms) != 1:
        message = f"has {' and '.join(forms)}; a command is one of run, script and uses"
        if not forms:
            message = "is no command: one of run, script and uses has to say what it is"
        yield problem_at(document, (name,), message)
    if command.get("sha256") is not None and "uses" not in forms:
        yield problem_at(document, (name, "sha256"), "pins the file of `uses`, and there is none")


def llm_problems(document: MappingNode) -> Iterator[Problem]:
    """What is wrong with how a model says where its key is."""
    if document.get("api_key_env") is not None and document.get("api_key_cmd") is not None:
        yield problem_at(document, ("api_key_cmd",), "api_key_env is given too; one of them says where the key is")


def experiment_problems(
    document: MappingNode, *, llm_specs: Collection[str], commands: Collection[str], unread: bool = False
) -> Iterator[Problem]:
    """What is wrong between the parts of an experiment, short forms written out.

    Args:
        document: The experiment.
        llm_specs: Names of the models.
        commands: Names of the commands.
        unread: Whether there may be more of these.
    """
    cases = document.child("cases")
    for index, case in _mappings(cases):
        yield from _unless(unread, _case(document, ("cases", index), case, commands))
    matrix = document.child("matrix")
    if isinstance(matrix, MappingNode):
        for at, node in [*_texts(matrix, ("matrix",), "llm_specs"), *_llm_specs(matrix)]:
            yield from _known(document, at, node, llm_specs, "no LLMSpec document has this name")
    for at, node in _texts(document, (), "retry_on"):
        words = f"is no failure code that a trial can have; there are {', '.join(_RETRIED)}"
        yield from _known(document, at, node, _RETRIED, words)
    pipeline = document.child("pipeline")
    if isinstance(pipeline, MappingNode):
        for scope in SCOPES:
            for index, step in _mappings(pipeline.child(scope)):
                yield from _unless(unread, _step(document, ("pipeline", scope, index), step, commands))


def _unless(unread: bool, problems: Iterator[Problem]) -> Iterator[Problem]:
    """All but commands that nobody has, where these may be in a file that could not be read."""
    return (one for one in problems if not (unread and one.nearest is None and one.message.endswith(_NO_COMMAND)))


def problem_at(document: Node, path: tuple[Part, ...], message: str, *, near: str | None = None) -> Problem:
    """A problem with what stands at a path of a document."""
    place = place_of(document, path)
    return Problem(file=place.file, line=place.line, path=place.path, message=message, nearest=near)


def _case(document: Node, path: tuple[Part, ...], case: MappingNode, commands: Collection[str]) -> Iterator[Problem]:
    source = source_of(case)
    if source is None:
        return
    takes = SOURCE_KEYS[source]
    for entry in case.entries:
        known = any(entry.key in keys for keys in SOURCE_KEYS.values())
        if known and entry.key not in takes:
            yield problem_at(document, (*path, entry.key), _misplaced(source, entry))
    for key in _NEEDED[source]:
        if case.get(key) is None:
            yield problem_at(document, (*path, key), f"a case with source {source} needs this key")
    fetch = case.child("fetch")
    if "fetch" in takes:
        yield from _known(document, (*path, "fetch"), fetch, commands, _NO_COMMAND)


def _misplaced(source: str, entry: Entry) -> str:
    others = [name for name, keys in SOURCE_KEYS.items() if entry.key in keys]
    return f"says nothing about a case with source {source}, but with source {' or '.join(others)}"


def _step(document: Node, path: tuple[Part, ...], step: MappingNode, commands: Collection[str]) -> Iterator[Problem]:
    fixes = [key for key in ("fix", "fix_writeback", "fix_attempts") if step.get(key) is not None]
    if "per_case" not in path:
        for key in fixes:
            yield problem_at(document, (*path, key), "only a step of per_case can be fixed")
        return
    if "fix" not in fixes:
        for key in fixes:
            yield problem_at(document, (*path, key), "says how a case is fixed, and there is no fix")
    yield from _known(document, (*path, "fix"), step.child("fix"), commands, _NO_COMMAND)


def _known(
    document: Node, path: tuple[Part, ...], node: Node | None, names: Collection[str], message: str
) -> Iterator[Problem]:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value and node.value not in names:
        yield problem_at(document, path, f"{node.value!r}: {message}", near=nearest(node.value, names))


def _texts(parent: MappingNode, path: tuple[Part, ...], key: str) -> Iterator[tuple[tuple[Part, ...], Node]]:
    node = parent.child(key)
    if isinstance(node, ListNode):
        for entry in node.entries:
            yield (*path, key, entry.key), entry.node


def _llm_specs(matrix: MappingNode) -> Iterator[tuple[tuple[Part, ...], Node]]:
    for index, agent in _mappings(matrix.child("agents")):
        node = agent.child("llm_spec")
        if node is not None:
            yield ("matrix", "agents", index, "llm_spec"), node


def _mappings(node: Node | None) -> Iterator[tuple[Part, MappingNode]]:
    if isinstance(node, ListNode):
        for entry in node.entries:
            if isinstance(entry.node, MappingNode):
                yield entry.key, entry.node
