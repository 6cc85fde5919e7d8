"""IP addresses are taken out, and versions, times and longer numbers stay."""

from __future__ import annotations

import ipaddress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentix.redaction import Redactor, Secrets

REDACTOR = Redactor(Secrets())


@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "from {} port 22",
        "host={}",
        "({})",
        "user@{}",
        "http://{}/a",
        '{{"ip": "{}"}}',
        r'"a\n{}\n"',
        "<td>{}</td>",
        "{}/24",
        "{}, {}",
        "It is {}.",
        "[{}]:443",
    ],
)
@pytest.mark.parametrize(
    "address", ["8.8.8.8", "10.0.0.5", "192.168.100.200", "2001:db8::1", "fe80::1", "2606:4700::1111"]
)
def test_an_address_is_taken_out(address: str, around: str) -> None:
    assert REDACTOR.text(around.format(address, address)) == around.format("***", "***")


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("8.8.8.8:53", "***:53"),
        ("10.0.0.1-10.0.0.9", "***-***"),
        ("ip-10-0-0-12.ec2.internal", "ip-***.ec2.internal"),
        ("10.0.0.5.nip.io", "***.nip.io"),
        ("log_10.0.0.5_80.txt", "log_***_80.txt"),
        ("::ffff:8.8.8.8", "::ffff:***"),
        ("fe80::1%eth0", "***%eth0"),
        ("2001:0db8:85a3:0000:0000:8a2e:0370:7334", "***"),
        ("address 2001:db8::1: it answered", "address ***: it answered"),
    ],
)
def test_only_the_address_itself_is_taken_out(text: str, masked: str) -> None:
    assert REDACTOR.text(text) == masked


@pytest.mark.parametrize(
    "text",
    [
        "version 1.2.3.4",
        "Version: 1.2.3.4",
        '"version": "1.2.3.4"',
        "__version__ = '1.2.3.4'",
        r"{\"app_version\": \"1.2.3.4\"}",
        "--version=1.2.3.4",
        "v1.2.3.4",
        "release 1.2.3.4",
        "1.2.3.4-beta",
        "1.2.3.4-5ubuntu1",
        "1.2.3.4+build7",
        "1.2.3.4rc1",
        "foo==1.2.3.4",
        "foo >= 1.2.3.4, foo~=1.2.3.4",
        "foo-1.2.3.4.tar.gz",
        "libfoo_1.2.3.4_amd64.deb",
        "1.2.3.4.5",
        "0.1.2.3.4",
        "1.3.6.1.4.1.311",
        "Mozilla/5.0 Chrome/120.0.0.0 Safari/537.36",
        "Section 1.2.3.4",
        "300.1.1.1 and 01.02.03.04 and 2024.01.02.03",
        "127.0.0.1 0.0.0.0 ::1 :: 255.255.255.0",
        "12:34:56 2026-01-01T00:00:00 aa:bb:cc:dd:ee:ff",
        "a[1::2] x[::2] std::vector dead::beef ::abcd 1::2",
        "[1.25, 10.5, 3.1415] 1.2.3",
    ],
)
def test_what_only_looks_like_an_address_stays(text: str) -> None:
    assert REDACTOR.text(text) == text


@given(st.ip_addresses(v=4))
def test_any_public_address_is_taken_out(address: ipaddress.IPv4Address) -> None:
    if not address.is_loopback and str(address).split(".")[0] not in {"0", "255"}:
        assert REDACTOR.text(f"at {address} ") == "at *** "


@given(st.ip_addresses(v=6, network="2000::/3"), st.booleans())
def test_any_allocated_address_is_taken_out(address: ipaddress.IPv6Address, whole: bool) -> None:
    assert REDACTOR.text(f"at {address.exploded if whole else address} ") == "at *** "
