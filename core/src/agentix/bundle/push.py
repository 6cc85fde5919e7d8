"""Publishes a bundle as an OCI image, whose files are the bundle's tree, for engines that mount images."""

from __future__ import annotations

import gzip
import hashlib
import json
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agentix.bundle.archive import export_bundle
from agentix.bundle.description import Description
from agentix.bundle.listing import hash_file
from agentix.bundle.registry import Registry, parse_image_ref
from agentix.errors import BundleError

_MANIFEST = "application/vnd.oci.image.manifest.v1+json"
_CONFIG = "application/vnd.oci.image.config.v1+json"
_LAYER = "application/vnd.oci.image.layer.v1.tar+gzip"
_DIGEST_LABEL = "agentix.bundle.digest"


@dataclass(frozen=True, kw_only=True)
class Pushed:
    """An image that a registry has."""

    reference: str
    """Registry, name and tag."""
    digest: str
    """Of the image, not of the bundle: the same bundle gives the same one."""
    uploaded: int
    """Bytes that the registry did not have yet."""


def push_bundle(ref: str, target: str) -> Pushed:
    """Upload a bundle of the local store to a registry.

    The image has one layer, which holds the tree with its `bundle.json`, and says the bundle's digest in the label
    `agentix.bundle.digest`.

    Args:
        ref: The bundle.
        target: REGISTRY/NAME[:TAG]; the bundle's own tag by default.

    Raises:
        BundleError: The bundle is unknown or damaged, the target is malformed, or the registry refuses it.
        HostError: The registry does not answer, or fails.
    """
    place = parse_image_ref(target)
    registry = Registry(place)
    with tempfile.TemporaryDirectory(prefix="agentix-push-") as folder:
        layer = Path(folder, "layer.tar.gz")
        description = export_bundle(ref, layer)
        config = Path(folder, "config.json")
        config.write_bytes(_config(description, diff_id=_digest_unpacked(layer)))
        entries = {layer: _entry(layer, _LAYER), config: _entry(config, _CONFIG)}
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": entries[config]}
        manifest |= {"layers": [entries[layer]], "annotations": _labels(description)}
        content = json.dumps(manifest, sort_keys=True, separators=(",", ":")).encode()
        uploaded = 0
        for path, entry in entries.items():
            if registry.put_blob(path, digest=entry["digest"]):
                uploaded += entry["size"]
        tag = place.tag or description.tag
        registry.put_manifest(content, kind=_MANIFEST, tag=tag)
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    return Pushed(reference=f"{place.host}/{place.name}:{tag}", digest=digest, uploaded=uploaded)


def _config(description: Description, *, diff_id: str) -> bytes:
    os, _, architecture = description.platform.partition("/")
    if not architecture:
        raise BundleError(f"the bundle is for {description.platform!r}, which no image can be for")
    config = {
        "architecture": architecture,
        "os": os,
        "config": {"Labels": _labels(description)},
        "rootfs": {"type": "layers", "diff_ids": [diff_id]},
    }
    return json.dumps(config, sort_keys=True, separators=(",", ":")).encode()


def _labels(description: Description) -> dict[str, str]:
    return {
        _DIGEST_LABEL: description.digest,
        "org.opencontainers.image.title": description.name,
        "org.opencontainers.image.version": description.tag,
    }


def _entry(path: Path, kind: str) -> dict[str, Any]:
    return {"mediaType": kind, "digest": f"sha256:{hash_file(path)}", "size": path.stat().st_size}


def _digest_unpacked(path: Path) -> str:
    with gzip.GzipFile(path) as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"
