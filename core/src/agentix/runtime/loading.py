"""Where the worker finds modules, and how it gets from a name to a function."""

from __future__ import annotations

import importlib
import importlib.util
import os
import site
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_SCRIPT = "__agentix_main__"


def prepare(settings: dict[str, Any]) -> None:
    """Set up the search path.

    Args:
        settings: `path`, the directories to search in place of those that are searched now, where there are any, and
            `site`, the directories of packages that may have `.pth` files.
    """
    path = [os.fsdecode(directory) for directory in settings["path"]]
    if path:
        sys.path[:] = [*path, *(directory for directory in sys.path if directory not in path)]
    for directory in settings["site"]:
        site.addsitedir(os.fsdecode(directory))


def load(name: str, main: dict[str, Any] | None) -> Callable[..., Any]:
    """The function of a name such as `package.module:function`.

    Args:
        name: Of it.
        main: What `__main__` is on the host, where the call has to do with it: `module`, and `file` where it is
            loaded from there.
    """
    if main is not None and not hasattr(sys.modules["__main__"], "__agentix__"):
        module = _script(main["module"], os.fsdecode(main["file"])) if main["file"] else None
        if module is None:
            module = importlib.import_module(main["module"])
        vars(module)["__agentix__"] = True
        # Arguments name their classes by the module that they were in on the host.
        sys.modules["__main__"] = module
    place, _, attribute = name.partition(":")
    function: Callable[..., Any] = getattr(importlib.import_module(place), attribute)
    return function


def _script(name: str, file: str) -> Any:
    spec = importlib.util.spec_from_file_location(_SCRIPT, file)
    if spec is None or spec.loader is None:
        raise ImportError(f"{file} is no Python file", name=name, path=file)
    # What it imports from beside itself is found as it is where the script runs.
    directory = os.path.dirname(file)
    if directory not in sys.path:
        sys.path.append(directory)
    module = importlib.util.module_from_spec(spec)
    sys.modules[_SCRIPT] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[_SCRIPT]
        raise
    return module
