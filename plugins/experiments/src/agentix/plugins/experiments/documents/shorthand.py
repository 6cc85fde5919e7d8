"""The short forms of an experiment, written out: each value keeps the place and the path that the user gave it."""

from __future__ import annotations

from agentix.plugins.experiments.documents.models import StepSpec
from agentix.plugins.experiments.documents.nodes import Entry, ListNode, MappingNode, Node, Scalar
from agentix.plugins.experiments.documents.paths import path_text
from agentix.plugins.experiments.documents.problems import Problem
from agentix.plugins.experiments.documents.shapes import keys_of

SCOPES = ("per_case", "per_trial", "per_experiment")
SOURCE_KEYS = {
    "local": frozenset({"path", "sha256", "dataset", "options"}),
    "git": frozenset({"repo", "ref", "path", "sha256", "fetch", "dataset", "options"}),
    "hf": frozenset({"repo", "ref", "path", "sha256", "fetch", "dataset", "options"}),
    "dataset": frozenset({"dataset", "options", "ids"}),
}
"""What says something about a case of each source, besides `source` and `id`."""


def experiment_written_out(document: MappingNode, problems: list[Problem]) -> MappingNode:
    """An Experiment document without short forms and without `case_defaults`."""
    whole = _with_defaults(document)
    if isinstance(provider := whole.child("provider"), Node):
        whole = whole.replaced("provider", _provider(provider, problems))
    matrix = whole.child("matrix")
    if isinstance(matrix, MappingNode) and isinstance(agents := matrix.child("agents"), ListNode):
        whole = whole.replaced("matrix", matrix.replaced("agents", _named_all(agents)))
    pipeline = whole.child("pipeline")
    if isinstance(pipeline, MappingNode):
        for scope in SCOPES:
            if isinstance(steps := pipeline.child(scope), MappingNode):
                pipeline = pipeline.replaced(scope, _steps(steps, scope, problems))
        whole = whole.replaced("pipeline", pipeline)
    return whole


def llm_written_out(document: MappingNode, problems: list[Problem]) -> MappingNode:
    """An LLMSpec document with `api` for `provider` and prices by the names of the model."""
    whole = _renamed(document, {"provider": "api"}, (), problems)
    if isinstance(price := whole.child("price"), MappingNode):
        named = _renamed(price, {"in": "input", "out": "output"}, ("price",), problems)
        whole = whole.replaced("price", named)
    return whole


def source_of(case: MappingNode) -> str | None:
    """The source of a case; `None` for one that there is not."""
    node = case.child("source")
    if node is None:
        return "local"
    return node.value if isinstance(node, Scalar) and node.value in SOURCE_KEYS else None


def _with_defaults(document: MappingNode) -> MappingNode:
    defaults, cases = document.child("case_defaults"), document.child("cases")
    kept = document.with_entries([entry for entry in document.entries if entry.key != "case_defaults"])
    whole = kept if isinstance(kept, MappingNode) else document
    if not isinstance(defaults, MappingNode) or not isinstance(cases, ListNode):
        return whole
    given = [
        Entry(key=entry.key, line=entry.line, node=entry.node, typed=("case_defaults", entry.key), absolute=True)
        for entry in defaults.entries
    ]
    filled = [
        Entry(key=entry.key, line=entry.line, node=_filled(entry.node, given), typed=entry.typed)
        for entry in cases.entries
    ]
    return whole.replaced("cases", cases.with_entries(filled))


def _filled(case: Node, defaults: list[Entry]) -> Node:
    if not isinstance(case, MappingNode):
        return case
    own = {entry.key for entry in case.entries}
    source = [entry for entry in defaults if entry.key == "source" and "source" not in own]
    named = case.with_entries([*case.entries, *source])
    takes = SOURCE_KEYS.get(source_of(named) or "", frozenset()) if isinstance(named, MappingNode) else frozenset()
    return named.with_entries(
        [*named.entries, *(entry for entry in defaults if entry.key not in own and entry.key in takes)]
    )


def _named_all(agents: ListNode) -> ListNode:
    return ListNode(
        file=agents.file,
        line=agents.line,
        entries=tuple(
            Entry(key=entry.key, line=entry.line, node=_named(entry.node), typed=entry.typed)
            for entry in agents.entries
        ),
    )


def _named(node: Node) -> Node:
    """A mapping with just a name for a name."""
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        return node
    name = Entry(key="name", line=node.line, node=node, typed=())
    return MappingNode(file=node.file, line=node.line, entries=(name,))


def _provider(node: Node, problems: list[Problem]) -> Node:
    whole = _named(node)
    if not isinstance(whole, MappingNode):
        return whole
    options = whole.child("options")
    if options is not None and not isinstance(options, MappingNode):
        return whole
    beside = [
        Entry(key=entry.key, line=entry.line, node=entry.node, typed=("provider", entry.key), absolute=True)
        for entry in whole.entries
        if entry.key not in ("name", "options")
    ]
    inside = list(options.entries) if options is not None else []
    for entry in beside:
        if any(other.key == entry.key for other in inside):
            path = path_text(["provider", entry.key])
            message = "this option stands beside `options` and in it"
            problems.append(Problem(file=node.file, line=entry.line, path=path, message=message))
    merged = MappingNode(file=node.file, line=node.line, entries=(*inside, *beside))
    kept = [entry for entry in whole.entries if entry.key == "name"]
    line = options.line if options is not None else node.line
    return whole.with_entries([*kept, Entry(key="options", line=line, node=merged)])


def _steps(steps: MappingNode, scope: str, problems: list[Problem]) -> ListNode:
    """The older form: the name of each step with its inputs, in order."""
    own = keys_of(StepSpec).keys() - {"uses", "with"}
    entries: list[Entry] = []
    for index, entry in enumerate(steps.entries):
        at = ("pipeline", scope, entry.key)
        inner = entry.node
        if isinstance(inner, Scalar) and inner.value is None:
            inner = MappingNode(file=inner.file, line=entry.line)
        if not isinstance(inner, MappingNode):
            message = "has to be a mapping of the step's inputs"
            problems.append(Problem(file=inner.file, line=entry.line, path=path_text(at), message=message))
            continue
        given = inner.child("with")
        inputs = [
            Entry(key=one.key, line=one.line, node=one.node, typed=(*at, one.key), absolute=True)
            for one in inner.entries
            if one.key not in own and one.key != "with"
        ]
        if isinstance(given, MappingNode):
            inputs = [*given.entries, *inputs]
        name = Scalar(file=inner.file, line=entry.line, value=str(entry.key), text=str(entry.key))
        within = MappingNode(file=inner.file, line=inner.line, entries=tuple(inputs))
        whole = [
            Entry(key="uses", line=entry.line, node=name, typed=()),
            *(one for one in inner.entries if one.key in own),
            Entry(key="with", line=inner.line, node=within if given is None or inputs else given),
        ]
        step = MappingNode(file=inner.file, line=inner.line, entries=tuple(whole))
        entries.append(Entry(key=index, line=entry.line, node=step, typed=(entry.key,)))
    return ListNode(file=steps.file, line=steps.line, entries=tuple(entries))


def _renamed(node: MappingNode, names: dict[str, str], path: tuple[str, ...], problems: list[Problem]) -> MappingNode:
    present = {entry.key for entry in node.entries}
    entries: list[Entry] = []
    for entry in node.entries:
        name = names.get(str(entry.key))
        if name is None:
            entries.append(entry)
            continue
        if name in present:
            message = f"means the same as {name}, which is given too"
            at = path_text([*path, entry.key])
            problems.append(Problem(file=node.file, line=entry.line, path=at, message=message))
            continue
        entries.append(Entry(key=name, line=entry.line, node=entry.node, typed=(entry.key,)))
    return MappingNode(file=node.file, line=node.line, entries=tuple(entries))
