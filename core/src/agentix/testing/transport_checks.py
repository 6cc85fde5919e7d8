"""Checks of a transport: strict inputs, no host environment but what it names, and honest receipts."""

from __future__ import annotations

import re
from pathlib import Path

from agentix.interfaces import Receipt, Transport
from agentix.testing.cases import StepCase, TransportCase
from agentix.testing.checks import Checks, expect, not_applicable
from agentix.testing.step_checks import expect_scopes, expect_strict_inputs
from agentix.testing.step_units import fingerprint, units

TRANSPORT = Checks("transport")


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
        ctx = unit.ctx
        source = ctx.run_dir / "finished"
        _fill(source)
        before = fingerprint(source)
        receipts = [await transport.ship(source, inputs, ctx) for _ in range(2)]
        expect(fingerprint(source) == before, "it changed what it shipped")
    for receipt in receipts:
        expect(isinstance(receipt, Receipt), f"ship returned a {type(receipt).__name__}")
        expect(not re.search(r"//[^/@\s]+:[^/@\s]+@", receipt.destination), "the destination has a password in it")
    first = receipts[0]
    expect((first.files, first.bytes) == (2, 11), f"of 2 files with 11 bytes it says {first.files} with {first.bytes}")


def _fill(source: Path) -> None:
    (source / "deep").mkdir(parents=True)
    (source / "one").write_bytes(b"hello")
    (source / "deep" / "two").write_bytes(b"world\n")
