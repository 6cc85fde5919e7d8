"""Uploads to an image registry (OCI distribution specification 1.1, "Push"), with the logins that docker has stored."""

from __future__ import annotations

import json
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from email.message import Message
from pathlib import Path
from typing import IO

from agentix.bundle.logins import Login, login_for
from agentix.errors import BundleError, HostError

_TIMEOUT_S = 60.0
_PATIENCE_S = 120.0
_REFERENCE = re.compile(
    r"(?P<host>[A-Za-z0-9.-]+(?::\d+)?|\[[0-9a-fA-F:]+\](?::\d+)?)/"
    r"(?P<name>[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*)*)"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?"
)
_CHALLENGE = re.compile(r'([a-z_]+)="([^"]*)"', re.IGNORECASE)
_LOOPBACK = ("localhost", "127.0.0.1", "[::1]")


@dataclass(frozen=True, kw_only=True)
class ImageRef:
    """Where an image goes."""

    host: str
    name: str
    tag: str | None

    @property
    def url(self) -> str:
        """Where the registry listens: without TLS only on this machine, as docker has it."""
        host = "registry-1.docker.io" if self.host in ("docker.io", "index.docker.io") else self.host
        bare = host if host.endswith("]") else re.sub(r":\d+$", "", host)
        return f"{'http' if bare in _LOOPBACK else 'https'}://{host}"

    def __str__(self) -> str:
        return f"{self.host}/{self.name}" + (f":{self.tag}" if self.tag else "")


def parse_image_ref(text: str) -> ImageRef:
    """A reference of the form REGISTRY/NAME[:TAG].

    Raises:
        BundleError: It is in another form.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None or not (set(".:[") & set(match["host"]) or match["host"] == "localhost"):
        raise BundleError(
            f"{text!r} is not REGISTRY/NAME[:TAG]",
            hint="write it as ghcr.io/team/eval:1.0 or localhost:5000/eval; names are in small letters",
        )
    return ImageRef(host=match["host"], name=match["name"], tag=match["tag"])


class Registry:
    """One repository of a registry.

    Args:
        ref: Which one.
    """

    def __init__(self, ref: ImageRef) -> None:
        self._ref = ref
        self._login: Login | None = login_for(ref.host)
        self._authorization: str | None = None

    def put_blob(self, path: Path, *, digest: str) -> bool:
        """Upload a file, unless it is there.

        Returns:
            Whether it was uploaded.

        Raises:
            BundleError: The registry refuses it.
            HostError: The registry does not answer, or fails.
        """
        url = f"{self._ref.url}/v2/{self._ref.name}/blobs"
        if self._ask("HEAD", f"{url}/{digest}", ok=(404,))[0] == 200:
            return False
        _, headers = self._ask("POST", f"{url}/uploads/", data=b"")
        location = urllib.parse.urljoin(f"{url}/uploads/", str(headers.get("Location", "")))
        location += f"{'&' if '?' in location else '?'}digest={urllib.parse.quote(digest)}"
        self._ask("PUT", location, data=path, kind="application/octet-stream")
        return True

    def put_manifest(self, content: bytes, *, kind: str, tag: str) -> None:
        """Name what was uploaded.

        Raises:
            BundleError: The registry refuses it.
            HostError: The registry does not answer, or fails.
        """
        self._ask("PUT", f"{self._ref.url}/v2/{self._ref.name}/manifests/{tag}", data=content, kind=kind)

    def _ask(
        self, method: str, url: str, *, data: bytes | Path | None = None, kind: str = "", ok: tuple[int, ...] = ()
    ) -> tuple[int, Message]:
        until = time.monotonic() + _PATIENCE_S
        pause, asked = 1.0, False
        while True:
            try:
                return self._send(method, url, data, kind)
            except urllib.error.HTTPError as error:
                with error:
                    if error.code in ok:
                        return error.code, error.headers
                    if error.code == 401 and not asked:
                        asked = True
                        self._authorize(error.headers)
                        continue
                    wait = _wait(error.headers, pause)
                    if error.code in (429, 503) and time.monotonic() + wait < until:
                        time.sleep(wait)
                        pause *= 2
                        continue
                    raise self._refused(error) from error
            except (OSError, ValueError) as error:
                reason = error.reason if isinstance(error, urllib.error.URLError) else error
                what = f"the registry {self._ref.host} cannot be reached: {reason}"
                raise HostError(what, detail="registry") from error

    def _send(self, method: str, url: str, data: bytes | Path | None, kind: str) -> tuple[int, Message]:
        headers = {"User-Agent": "agentix", **({"Content-Type": kind} if kind else {})}
        if not isinstance(data, Path):
            return self._opened(_request(url, data=data, headers=headers, method=method))
        headers["Content-Length"] = str(data.stat().st_size)
        with data.open("rb") as file:
            return self._opened(_request(url, data=file, headers=headers, method=method))

    def _opened(self, request: urllib.request.Request) -> tuple[int, Message]:
        # A login is for the registry alone, wherever it lets the bytes be sent.
        if self._authorization is not None and request.full_url.startswith(f"{self._ref.url}/"):
            request.add_unredirected_header("Authorization", self._authorization)
        with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - see _request
            answer.read()
            return answer.status, answer.headers

    def _authorize(self, headers: Message) -> None:
        challenge = str(headers.get("WWW-Authenticate", ""))
        scheme = challenge.partition(" ")[0].lower()
        basic = None if self._login is None else self._login.basic
        if scheme != "bearer":
            self._authorization = basic
            return
        said = {name.lower(): value for name, value in _CHALLENGE.findall(challenge)}
        realm = said.get("realm", "")
        if not realm.startswith("https://" if self._ref.url.startswith("https://") else ("https://", "http://")):
            raise BundleError(f"the registry {self._ref.host} asks for logins at {realm!r}, which is not safe")
        query = {"service": said.get("service", ""), "scope": f"repository:{self._ref.name}:pull,push"}
        request = _request(f"{realm}?{urllib.parse.urlencode(query)}")
        if self._login is not None and self._login.token is not None:
            form = {"grant_type": "refresh_token", "refresh_token": self._login.token, "client_id": "agentix", **query}
            request = _request(realm, data=urllib.parse.urlencode(form).encode(), method="POST")
        elif basic is not None:
            request.add_header("Authorization", basic)
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:  # noqa: S310 - see _request
                found = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refused(error) from error
        token = found.get("token") or found.get("access_token")
        self._authorization = f"Bearer {token}" if token else None

    def _refused(self, error: urllib.error.HTTPError) -> BundleError | HostError:
        said = error.read(2000).decode("utf-8", "replace")
        try:
            said = "; ".join(str(one.get("message") or one.get("code")) for one in json.loads(said)["errors"])
        except (ValueError, KeyError, TypeError, AttributeError):
            said = said.strip()
        what = f"the registry {self._ref.host} does not take {self._ref.name}: {error.code} {said or error.reason}"
        if error.code >= 500 or error.code == 429:
            return HostError(what, detail="registry")
        hint = f"log in with `docker login {self._ref.host}`" if error.code in (401, 403) else None
        return BundleError(what, hint=hint)


def _request(
    url: str, *, data: bytes | IO[bytes] | None = None, headers: Mapping[str, str] | None = None, method: str = "GET"
) -> urllib.request.Request:
    """A request, wherever the registry has pointed at, as long as it is to a server."""
    if not url.startswith(("https://", "http://")):
        raise ValueError(f"it points at {url!r}")
    return urllib.request.Request(url, data=data, headers=dict(headers or {}), method=method)  # noqa: S310


def _wait(headers: Message, otherwise: float) -> float:
    said = str(headers.get("Retry-After", "")).strip()
    return float(said) if said.isdigit() else otherwise
