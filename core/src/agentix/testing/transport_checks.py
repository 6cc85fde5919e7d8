"""Checks of a transport: strict inputs, no variable of this machine but what it names, and honest receipts."""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from agentix.interfaces import Receipt, Transport
from agentix.testing.cases import StepCase, TransportCase
from agentix.testing.checks import Checks, expect, not_applicable
from agentix.testing.step_checks import expect_scopes, expect_strict_inputs
from agentix.testing.step_units import fingerprint, units

TRANSPORT = Checks("transport")
UNDECLARED = "AGENTIX_CHECK_UNDECLARED"


@TRANSPORT.add()
async def scopes_are_declared(transport: Transport, case: TransportCase) -> None:
    """`scopes` is a frozenset of the scopes that it works in."""
    expect_scopes(transport)


@TRANSPORT.add()
async def inputs_are_strict(transport: Transport, case: TransportCase) -> None:
    """`Inputs` is a pydantic model that refuses an unknown input."""
    expect_strict_inputs(transport)


@TRANSPORT.add()
async def host_variables_are_named(transport: Transport, case: TransportCase) -> None:
    """`host_env` is a tuple of the names of environment variables."""
    names = transport.host_env
    expect(isinstance(names, tuple), f"host_env is a {type(names).__name__}, not a tuple")
    bad = [name for name in names if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name)]
    expect(not bad, f"these are no names of variables: {bad}")


@TRANSPORT.add()
async def shipping_twice_is_safe(transport: Transport, case: TransportCase) -> None:
    """It ships a directory and says how many files and bytes arrived; again is no error; the source is untouched."""
    if case.inputs is None:
        not_applicable("the case has no inputs to ship with")
    inputs = transport.Inputs.model_validate(case.inputs)
    with units(transport, StepCase()) as unit:
        source = unit.ctx.run_dir / "finished"
        _fill(source)
        ctx = replace(unit.ctx, path=source)
        before = fingerprint(source)
        receipts = [await transport.ship(source, inputs, ctx) for _ in range(2)]
        expect(fingerprint(source) == before, "it changed what it shipped")
    for receipt in receipts:
        _expect_honest(receipt)
    first = receipts[0]
    expect((first.files, first.bytes) == (2, 11), f"of 2 files with 11 bytes it says {first.files} with {first.bytes}")


@TRANSPORT.add()
async def a_file_is_shipped_too(transport: Transport, case: TransportCase) -> None:
    """It ships a single file, such as the archive of a trial, and says that one arrived."""
    if case.inputs is None:
        not_applicable("the case has no inputs to ship with")
    inputs = transport.Inputs.model_validate(case.inputs)
    with units(transport, StepCase()) as unit:
        source = unit.ctx.run_dir / "archives" / "case-agent-1.tar"
        source.parent.mkdir()
        source.write_bytes(b"hello")
        receipt = await transport.ship(source, inputs, replace(unit.ctx, path=source))
        expect(source.read_bytes() == b"hello", "it changed what it shipped")
    _expect_honest(receipt)
    said = (receipt.files, receipt.bytes)
    expect(said == (1, 5), f"of 1 file with 5 bytes it says {receipt.files} with {receipt.bytes}")


@TRANSPORT.add()
async def its_tools_see_no_other_variables(transport: Transport, case: TransportCase) -> None:
    """The programs that it runs see no variable of this machine that `host_env` does not name."""
    if case.inputs is None:
        not_applicable("the case has no inputs to ship with")
    if not case.tools:
        not_applicable("the case names no programs that it runs")
    inputs = transport.Inputs.model_validate(case.inputs)
    with units(transport, StepCase()) as unit, _watched(case.tools) as seen:
        source = unit.ctx.run_dir / "finished"
        _fill(source)
        await transport.ship(source, inputs, replace(unit.ctx, path=source))
        records = {tool: seen(tool) for tool in case.tools}
    unused = [tool for tool, names in records.items() if names is None]
    expect(not unused, f"it ran no {', '.join(unused)}")
    told = [tool for tool, names in records.items() if names is not None and UNDECLARED in names]
    expect(not told, f"{', '.join(told)} saw a variable that host_env does not name")


@contextmanager
def _watched(tools: tuple[str, ...]) -> Iterator[Callable[[str], set[str] | None]]:
    """Put programs before those of these names that keep the names of the variables that they see, and a variable."""
    kept = {name: os.environ.get(name) for name in ("PATH", UNDECLARED)}
    with TemporaryDirectory(prefix="agentix-check-") as scratch:
        for tool in tools:
            real = shutil.which(tool)
            if real is None:
                not_applicable(f"there is no program {tool}")
            shim, record = Path(scratch, tool), Path(scratch, f"{tool}.env")
            shim.write_text(f'#!/bin/sh\nenv >>{shlex.quote(str(record))}\nexec {shlex.quote(real)} "$@"\n')
            shim.chmod(0o700)

        def seen(tool: str) -> set[str] | None:
            record = Path(scratch, f"{tool}.env")
            if not record.exists():
                return None
            return {line.partition("=")[0] for line in record.read_text(errors="replace").splitlines()}

        os.environ["PATH"] = os.pathsep.join(filter(None, (scratch, kept["PATH"])))
        os.environ[UNDECLARED] = "1"
        try:
            yield seen
        finally:
            for name, value in kept.items():
                if value is None:
                    os.environ.pop(name, None)
                else:
                    os.environ[name] = value


def _expect_honest(receipt: object) -> None:
    expect(isinstance(receipt, Receipt), f"ship returned a {type(receipt).__name__}")
    assert isinstance(receipt, Receipt)
    expect(not re.search(r"//[^/@\s]+:[^/@\s]+@", receipt.destination), "the destination has a password in it")


def _fill(source: Path) -> None:
    (source / "deep").mkdir(parents=True)
    (source / "one").write_bytes(b"hello")
    (source / "deep" / "two").write_bytes(b"world\n")
