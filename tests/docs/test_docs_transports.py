"""The page of the transports names every input and every variable of each, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from agentix.plugins.transports.hf import HfTransport

PAGE = Path(__file__).resolve().parents[2] / "docs/reference/transports.md"


@pytest.mark.parametrize(("name", "transport"), [("hf", HfTransport())])
def test_the_section_of_a_transport_lists_its_inputs(name: str, transport: HfTransport) -> None:
    section = re.split(r"^## ", PAGE.read_text(), flags=re.MULTILINE)
    [text] = [part for part in section if part.startswith(f"{name}\n")]
    listed = text.split("| input |")[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", listed, re.MULTILINE)) == set(transport.Inputs.model_fields)
    missing = {
        variable for variable in transport.host_env if variable.startswith("HF_") and f"`{variable}`" not in text
    }
    assert missing == set()
