"""Reads of a project's pyproject.toml what building a bundle needs."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from packaging.requirements import InvalidRequirement, Requirement
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from agentix.errors import BundleError

FILE = "pyproject.toml"
_FROZEN = ConfigDict(frozen=True, extra="forbid")
_LEGACY = ("setuptools>=64",)
_COMMAND = r"^[A-Za-z0-9_][A-Za-z0-9_.+-]*$"
_NPM = r"^(@[a-z0-9._~-]+/)?[a-z0-9._~-]+@[0-9][0-9A-Za-z.+-]*$"


class PathTool(BaseModel):
    """A program, or a directory with programs in it."""

    model_config = _FROZEN

    path: Path
    name: Annotated[str, Field(pattern=_COMMAND)] | None = None
    """What to call it; the name of the file or directory by default."""
    commands: tuple[str, ...] = ()
    """Which programs of a directory become commands; those in `bin`, else those at its top, by default."""
    libraries: bool = False
    """Bring the shared libraries and the loader of a program along, so that it needs nothing of the image."""


class NpmTool(BaseModel):
    """A package of the npm registry, with a Node to run it."""

    model_config = _FROZEN

    npm: Annotated[str, Field(pattern=_NPM)]
    """Name and exact version: `@scope/name@1.2.3`."""
    lock: Path | None = None
    """A package-lock.json that fixes what the package itself needs."""
    node: Path | None = None
    """The Node to bring along; the one on PATH by default."""
    commands: tuple[str, ...] = ()
    """Which of its commands; all by default."""

    @property
    def package(self) -> str:
        """The name without the version."""
        return self.npm.rpartition("@")[0]


Tool = PathTool | NpmTool


class BundleTable(BaseModel):
    """`[tool.agentix.bundle]`."""

    model_config = _FROZEN

    extras: tuple[str, ...] = ()
    """Optional dependencies of the project to bring along."""
    scripts: tuple[Annotated[str, Field(pattern=_COMMAND)], ...] = ()
    """Commands of dependencies to put on PATH; those of the project itself always are."""
    tools: tuple[Tool, ...] = ()

    @field_validator("tools", mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError("tools is a list")
        return [_tool(item, index) for index, item in enumerate(value)]


class BuildSystem(BaseModel):
    """`[build-system]`, PEP 518."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)

    requires: tuple[str, ...] = _LEGACY
    backend: str = Field("setuptools.build_meta:__legacy__", alias="build-backend")
    path: tuple[str, ...] = Field((), alias="backend-path")

    @model_validator(mode="after")
    def _inside(self) -> BuildSystem:
        if any(Path(place).is_absolute() or ".." in Path(place).parts for place in self.path):
            raise ValueError("backend-path has to lie in the project")
        return self


@dataclass(frozen=True, kw_only=True)
class Project:
    """A directory with a pyproject.toml."""

    path: Path
    name: str | None
    version: str | None
    """As written; `None` where the build tells it."""
    build: BuildSystem | None
    """`None` where there is no package to build."""
    bundle: BundleTable
    requires: tuple[str, ...] = ()
    """What it depends on, where there is no package whose metadata says so."""


def read_project(path: Path) -> Project:
    """Read a project.

    Raises:
        BundleError: There is none, or its pyproject.toml is not valid; the message names the place.
    """
    path = path.expanduser().resolve()
    file = path / FILE
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        what = "there is no directory" if not path.is_dir() else f"there is no {FILE} in"
        raise BundleError(f"{what} {path}", hint="name the directory of a Python project: agentix build PATH") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BundleError(f"{file}: {error}") from error
    project, build = _table(data, file, "project"), _table(data, file, "build-system")
    table = _table(data, file, "tool", "agentix", "bundle")
    packaged = _table(data, file, "tool", "uv").get("package", True) is not False
    has_package = packaged and bool(build or project or (path / "setup.py").exists())
    bundle = _checked(BundleTable, table, where=f"{file}: tool.agentix.bundle")
    return Project(
        path=path,
        name=project.get("name"),
        version=project.get("version"),
        build=_checked(BuildSystem, build, where=f"{file}: build-system") if has_package else None,
        bundle=bundle,
        requires=() if has_package else _requires(project, bundle.extras, file=file),
    )


def _table(data: dict[str, Any], file: Path, *names: str) -> dict[str, Any]:
    """A table of the file; empty where there is none."""
    for place, name in enumerate(names, 1):
        data = data.get(name, {})
        if not isinstance(data, dict):
            raise BundleError(f"{file}: {'.'.join(names[:place])} is no table")
    return data


def _requires(project: dict[str, Any], extras: tuple[str, ...], *, file: Path) -> tuple[str, ...]:
    optional = _table(project, file, "optional-dependencies")
    found = [*project.get("dependencies", ()), *(text for extra in extras for text in optional.get(extra, ()))]
    for text in found:
        try:
            Requirement(text)
        except (InvalidRequirement, TypeError) as error:
            raise BundleError(f"{file}: project.dependencies: {error}") from error
    return tuple(found)


def _tool(item: object, index: int) -> Any:
    table: object = item
    if isinstance(item, str):
        table = {"npm": item.removeprefix("npm:")} if item.startswith("npm:") else {"path": item}
    try:
        if not isinstance(table, dict) or ("npm" in table) == ("path" in table):
            raise ValueError("a tool is a path, npm:NAME@VERSION, or a table with `path` or `npm`")
        return (NpmTool if "npm" in table else PathTool).model_validate(table)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        if place == "npm":
            raise ValueError(
                f"tool {index + 1}: {first['input']!r} is not NAME@VERSION with an exact version"
            ) from None
        raise ValueError(f"tool {index + 1}: {place}: {first['msg']}") from None
    except ValueError as error:
        raise ValueError(f"tool {index + 1}: {error}") from None


def _checked(model: Any, data: Any, *, where: str) -> Any:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = "".join(f".{part}" for part in first["loc"])
        message = str(first["msg"]).removeprefix("Value error, ")
        raise BundleError(f"{where}{place}: {message}") from None
