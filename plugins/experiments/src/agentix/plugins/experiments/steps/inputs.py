"""What is wrong with the inputs of a step, found before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from agentix.api import AgentixError, Scope, Step, UsageError, type_wanted, typed_errors
from agentix.plugins.experiments.documents import StepSpec, nearest, with_hint
from agentix.plugins.experiments.steps.templates import VARIABLES, named, scopes_of

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from agentix.plugins.experiments.commands import Command


KEYS = tuple(name for name in StepSpec.model_fields if name not in ("uses", "inputs"))
"""Keys of a step that stand beside its inputs: in the older form among them."""


@dataclass(frozen=True, kw_only=True)
class StepProblem:
    """What is wrong with a step."""

    path: str
    """In the file, such as `pipeline.per_trial[1].with.keys`."""
    message: str
    near: str | None = None
    """The valid name that was probably meant."""
    unknown: bool = False
    """Whether it names what nobody knows, which may be a command of a file that could not be read."""


class StepRefused(AgentixError):
    """A step cannot be used as the file asks."""

    def __init__(self, problems: Sequence[StepProblem]) -> None:
        super().__init__("\n".join(f"{p.path}: {p.message}" for p in problems))
        self.problems = tuple(problems)


class StepUnknown(StepRefused):
    """Nobody can tell which inputs a step has: there is none of its name, or it cannot be loaded."""


def template_problems(given: Mapping[str, Any], scope: Scope, where: str) -> Iterator[StepProblem]:
    """Templates that name what there is not, or not for this unit."""
    for path, template in named(given):
        scopes = scopes_of(template)
        if scopes is None:
            meant = nearest(template.strip("{}. "), VARIABLES)
            yield StepProblem(
                path=f"{where}.with.{path}",
                message=f"there is no variable {template}; there are {', '.join(VARIABLES)}",
                near="{{." + meant + "}}" if meant else None,
            )
        elif scope not in scopes:
            yield StepProblem(path=f"{where}.with.{path}", message=f"{template} has no value in a {scope.value} step")


def word_problems(command: Command, names: Iterable[str], where: str) -> Iterator[StepProblem]:
    """Templates among the words of a command that have no value where it is used.

    Args:
        command: It.
        names: What has a value there.
        where: What uses it: other uses of the same command may be right.
    """
    try:
        command.arguments(dict.fromkeys(names, ""))
    except UsageError as error:
        yield StepProblem(path=where, message=with_hint(error.message, error.hint))


def input_problems(step: Step, given: Mapping[str, Any], where: str, *, scope: Scope) -> Iterator[StepProblem]:
    """Inputs that a step does not know, misses, or cannot use.

    What a file says is taken for what it is: the text "0.6" is no number, also where the step would read it as one.
    """
    context = {"scope": scope} if scope in step.scopes else {}
    known = [info.alias or name for name, info in step.Inputs.model_fields.items()]
    for item in typed_errors(step.Inputs, given, context=context):
        loc = item["loc"]
        path = f"{where}.with" + "".join(f"[{p}]" if isinstance(p, int) else f".{p}" for p in loc)
        if item["type"] == "extra_forbidden":
            level = known if len(loc) == 1 else _deeper(step.Inputs, loc)
            near = nearest(str(loc[-1]), [*level, *(KEYS if len(loc) == 1 else ())])
            takes = f"; the inputs here are {', '.join(level)}" if level else "; it takes none here"
            yield StepProblem(path=path, message=f"there is no such input{'' if near else takes}", near=near)
        elif item["type"] == "missing":
            yield StepProblem(path=path, message="has to be given")
        elif (message := type_wanted(item)) is not None:
            yield StepProblem(path=path, message=message, near=_near(item))
        else:
            yield StepProblem(path=path, message=str(item.get("ctx", {}).get("error") or item["msg"]))


def _near(error: ErrorDetails) -> str | None:
    """The one of several words that was probably meant."""
    words = str(error.get("ctx", {}).get("expected") or "").replace("'", "")
    return nearest(str(error["input"]), words.replace(" or ", ", ").split(", ")) if words else None


def _deeper(model: type[BaseModel], loc: tuple[int | str, ...]) -> list[str]:
    for part in loc[:-1]:
        info = model.model_fields.get(str(part))
        inner = info.annotation if info is not None else None
        if not (isinstance(inner, type) and issubclass(inner, BaseModel)):
            return []
        model = inner
    return list(model.model_fields)
