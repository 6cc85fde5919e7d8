"""Keys, tokens, header fields and signed URLs are told by what they look like, and ordinary text is left alone."""

from __future__ import annotations

import ipaddress
import json
from collections import Counter
from pathlib import Path

import pytest

from agentix.redaction import Redactor, Secrets

REDACTOR = Redactor(Secrets())
LONG = "abcdEFGH0123456789ijklMNOP0123456789"


def taken_out(text: str) -> tuple[str, dict[str, int]]:
    counts: Counter[str] = Counter()
    masked = REDACTOR.text(text, counts=counts)
    assert REDACTOR.text(masked) == masked
    return masked, dict(counts)


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        (f"sk-{LONG}", "openai_key"),
        (f"sk-proj-{LONG}_-{LONG}", "openai_key"),
        ("sk-CANARY0123456789", "openai_key"),
        (f"sk-ant-api03-{LONG}-{LONG}", "anthropic_key"),
        ("AKIAIOSFODNN7EXAMPLE", "aws_key"),
        ("ASIAIOSFODNN7EXAMPLE", "aws_key"),
        (f"AIza{LONG[:35]}", "google_key"),
        *((f"gh{letter}_{LONG}", "github_token") for letter in "pousr"),
        (f"github_pat_{LONG}_{LONG}", "github_token"),
        (f"hf_{LONG[:34]}", "huggingface_token"),
        ("xoxb-123456789012-abcdef", "slack_token"),
        ("xapp-1-A012345-6789-abcdef", "slack_token"),
    ],
)
@pytest.mark.parametrize(
    "around",
    [
        "{}",
        "key={}",
        "'{}'",
        "**{}**",
        "a {}, b",
        "(\n{}\n)",
        r'{{"a": "b\n{}\n"}}',
        r"\u000a{}",
        "q%3D{}",
        "\x1b[1m{}\x1b[0m",
    ],
)
def test_a_token_with_a_prefix_is_taken_out(token: str, kind: str, around: str) -> None:
    masked, counts = taken_out(around.format(token))
    assert masked == around.format("***")
    assert counts == {kind: 1}


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        ("Authorization: Bearer abc.def-ghi_j", "Authorization: Bearer ***"),
        ("> authorization: Basic dXNlcjpwYXNz\n> accept: */*", "> authorization: Basic ***\n> accept: */*"),
        ("Proxy-Authorization: Basic dXNlcjpwYXNz", "Proxy-Authorization: Basic ***"),
        ("Authorization: token 0123456789abcdef", "Authorization: token ***"),
        ("Authorization:   0123456789abcdef", "Authorization:   ***"),
        (
            'Authorization: Digest username="Mufasa", realm="a b", nonce="dcd98b", response="6629fae4"\nHost: x',
            "Authorization: Digest ***\nHost: x",
        ),
        (
            "Authorization: AWS4-HMAC-SHA256 Credential=AKID/2015/us/iam, SignedHeaders=host, Signature=5d672d79c",
            "Authorization: AWS4-HMAC-SHA256 ***",
        ),
        ("x-api-key: abcdefgh1", "x-api-key: ***"),
        ("X-Goog-Api-Key: abcdefgh1", "X-Goog-Api-Key: ***"),
        ("api-key: abcdefgh1", "api-key: ***"),
        ("Cookie: a=b; c=d", "Cookie: ***"),
        ('Cookie: a="b c"; c=d\n', "Cookie: ***\n"),
        ("Set-Cookie: sid=31d4d96e; Path=/; HttpOnly\r\nX: y", "Set-Cookie: ***\r\nX: y"),
        (
            """+ curl -H 'Authorization: Bearer abc' -H "x-api-key: abcdefgh1" -H 'Cookie: a=b' https://a.b/c""",
            """+ curl -H 'Authorization: Bearer ***' -H "x-api-key: ***" -H 'Cookie: ***' https://a.b/c""",
        ),
        ('{"Authorization": "Bearer abc", "x": 1}', '{"Authorization": "Bearer ***", "x": 1}'),
        ('{"authorization":"0123456789ab","Cookie":"a=b"}', '{"authorization":"***","Cookie":"***"}'),
        ('{"x-api-key":\n  "abcdefgh1"}', '{"x-api-key":\n  "***"}'),
        ('{"Set-Cookie": ["a=b", "c=d"], "n": ["a=b"]}', '{"Set-Cookie": ["***", "***"], "n": ["a=b"]}'),
        ("{'authorization': 'Bearer abc', 'cookie': 'a=b'}", "{'authorization': 'Bearer ***', 'cookie': '***'}"),
        ("[(b'authorization', b'Bearer abc1')]", "[(b'authorization', b'Bearer ***')]"),
        ('headers["Authorization"] = "Bearer abc1"', 'headers["Authorization"] = "Bearer ***"'),
        ("HTTP_AUTHORIZATION=Bearer abc1", "HTTP_AUTHORIZATION=Bearer ***"),
        ("SOME_API_KEY=abcdefgh12345678", "SOME_API_KEY=***"),
        ('"api_key": "abcdefgh1"', '"api_key": "***"'),
        (
            r'{"log": "GET / HTTP/1.1\r\nAuthorization: Bearer abc\r\nCookie: a=\"b\"; c=d\r\nHost: x"}',
            r'{"log": "GET / HTTP/1.1\r\nAuthorization: Bearer ***\r\nCookie: ***\r\nHost: x"}',
        ),
        (
            r'{"args": "{\"Authorization\": \"Bearer abc\", \"h\": {\"Set-Cookie\": [\"a=b\"]}}"}',
            r'{"args": "{\"Authorization\": \"Bearer ***\", \"h\": {\"Set-Cookie\": [\"***\"]}}"}',
        ),
    ],
)
def test_the_value_of_a_header_is_taken_out_and_its_name_stays(text: str, masked: str) -> None:
    assert taken_out(text)[0] == masked


@pytest.mark.parametrize(
    ("text", "masked"),
    [
        (
            "https://b.s3.amazonaws.com/k?X-Amz-Credential=AK%2F2&X-Amz-Date=2026&X-Amz-Signature=ab12&x=1",
            "https://b.s3.amazonaws.com/k?X-Amz-Credential=***&X-Amz-Date=2026&X-Amz-Signature=***&x=1",
        ),
        ("?X-Amz-Security-Token=IQoJ%3D&a", "?X-Amz-Security-Token=***&a"),
        ("https://a.blob.core.windows.net/c?sv=2022&sig=Ab%2B12%3D&se=1", None),
        ("https://storage.googleapis.com/b/o?X-Goog-Signature=0a1b2c&x", None),
        ("https://a.cloudfront.net/x?Expires=1&Signature=abcd~ef_&Key-Pair-Id=APKA1", None),
        ("https://a.b/c?token=abcd1234#top", "https://a.b/c?token=***#top"),
        ("https://a.b/c?x=1&amp;access_token=abcd1234", "https://a.b/c?x=1&amp;access_token=***"),
        (r'{"u": "https://a.b/c?x=1\u0026sig=abcd1234\u0026y=2"}', r'{"u": "https://a.b/c?x=1\u0026sig=***\u0026y=2"}'),
        ("u=https%3A%2F%2Fa%3Fsig%3Dabcd1234%26x%3D1", "u=https%3A%2F%2Fa%3Fsig%3D***%26x%3D1"),
        ("https://user:pa55@host/x", "https://user:***@host/x"),
        ("redis://:pa55word@host:6379/0", "redis://:***@host:6379/0"),
        (f"https://{LONG}@github.com/a/b.git", "https://***@github.com/a/b.git"),
    ],
)
def test_what_signs_a_url_or_logs_in_with_it_is_taken_out(text: str, masked: str | None) -> None:
    done, counts = taken_out(text)
    assert masked is None or done == masked
    assert sum(counts.values()) == done.count("***") > 0
    assert "?" not in text or done.startswith(text[: text.index("?")])


def test_a_private_key_is_taken_out_between_its_lines() -> None:
    body = "\n".join(["MIIEpAIBAAKCAQEA7" + LONG] * 8)
    key = f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----\n"
    masked, counts = taken_out(f"a\n{key}b")
    assert LONG not in masked
    assert masked.splitlines()[:2] == ["a", "-----BEGIN RSA PRIVATE KEY-----"]
    assert masked.splitlines()[-2:] == ["-----END RSA PRIVATE KEY-----", "b"]
    assert masked.count("\n") == key.count("\n") + 1
    assert counts == {"private_key": 1}
    quoted = json.loads(taken_out(json.dumps({"key": key, "n": 1}))[0])
    assert quoted["n"] == 1
    assert LONG not in quoted["key"]
    torn = taken_out(f"-----BEGIN PRIVATE KEY-----\n{body}\nand the log goes on")[0]
    assert LONG not in torn
    assert torn.endswith("and the log goes on")
    public = key.replace("RSA PRIVATE", "PUBLIC")
    assert taken_out(public) == (public, {})


ORDINARY = [
    "sk-learn, scikit-learn, sk-learn-contrib-imbalanced-2 and sk-some-css-class-of-10-words",
    "task-1234567890abcdef, risk-1234567890abcdef1234, disk-0a1b2c3d4e5f6a7b8c9d",
    "commit 3b18e512dba79e4c8300dd08aeb37f8e728b8dad, sha256:" + "0a" * 32,
    "f81d4fae-7dec-11d0-a765-00a0c91e6bf6 AKIA is how keys begin, hf_hub_download(hf_token) and ghp_ too",
    "the authorization: it was needed. Authorization is required. The cookie: it tasted good",
    "Authorization: $TOKEN, Authorization: Bearer ${TOKEN}, Authorization: Bearer <token>, x-api-key: $KEY",
    'headers = {"Authorization": f"Bearer {token}", "x-api-key": os.environ["API_KEY"]}',
    'h["Authorization"] = "Bearer " + token; api_key = os.environ["OPENAI_API_KEY"]',
    'def f(api_key: Optional[str] = None, cookie: str = "", authorization=None): ...',
    '{"required": ["api_key", "model"], "properties": {"name": "api_key", "type": "string"}}',
    '{"cookie": "chocolate", "cookies": 3, "cookie_consent": "yes", "authorization": null, "api_key": ""}',
    "https://a.b/c?page=2&sort=desc&tokens=12&sigma=0.5 http://host:8080/@scope/name mailto:a@b.c",
    "git@github.com:a/b.git ssh://git@github.com/a/b https://en.wikipedia.org/wiki/Key:value@x",
    "| key | value |\n|-----|-------|\n| api-key | string |\n",
    "token=12 signature = verify(sig=x) def token(self, token=None): return self.tokens[token]",
    "-----BEGIN PUBLIC KEY----- -----BEGIN CERTIFICATE-----",
]


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_stays(text: str) -> None:
    assert taken_out(text) == (text, {})


def test_sources_of_python_stay_but_for_a_few_places() -> None:
    changed = size = 0
    for path in {*Path(json.__file__).parents[1].glob("*.py")} - {Path(ipaddress.__file__)}:
        text = path.read_text(encoding="utf-8", errors="surrogateescape")
        counts: Counter[str] = Counter()
        REDACTOR.text(text, ips=True, counts=counts)
        changed += sum(counts.values())
        size += len(text)
    assert size > 2_000_000
    assert changed <= 20
