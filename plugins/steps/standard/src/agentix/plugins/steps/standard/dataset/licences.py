"""What the card of a dataset on the hub says of its licence."""

from __future__ import annotations

import difflib
import re

_SPDX = re.compile(r"[A-Za-z0-9][A-Za-z0-9.+-]*")
_WORDS = frozenset(
    """
    afl-3.0 agpl-3.0 apache-2.0 apple-amlr apple-ascl artistic-2.0 bigcode-openrail-m bigscience-bloom-rail-1.0
    bigscience-openrail-m bsd bsd-2-clause bsd-3-clause bsd-3-clause-clear bsl-1.0 c-uda cc cc-by-2.0 cc-by-2.5
    cc-by-3.0 cc-by-4.0 cc-by-nc-2.0 cc-by-nc-3.0 cc-by-nc-4.0 cc-by-nc-nd-3.0 cc-by-nc-nd-4.0 cc-by-nc-sa-2.0
    cc-by-nc-sa-3.0 cc-by-nc-sa-4.0 cc-by-nd-4.0 cc-by-sa-3.0 cc-by-sa-4.0 cc0-1.0 cdla-permissive-1.0
    cdla-permissive-2.0 cdla-sharing-1.0 creativeml-openrail-m ecl-2.0 epl-1.0 epl-2.0 etalab-2.0 eupl-1.1 eupl-1.2
    gfdl gpl gpl-2.0 gpl-3.0 isc lgpl lgpl-2.1 lgpl-3.0 lgpl-lr lppl-1.3c mit mpl-2.0 ms-pl ncsa odbl odc-by ofl-1.1
    openrail openrail++ osl-3.0 other pddl postgresql unknown unlicense wtfpl zlib
    """.split()  # noqa: SIM905
)
_CALLED = {"odbl-1.0": "odbl", "odc-by-1.0": "odc-by", "pddl-1.0": "pddl"}


def checked(licence: str) -> str:
    """The licence, if it is an SPDX id or a word of the hub's.

    Raises:
        ValueError: It can be neither.
    """
    if licence.lower() in _WORDS or _SPDX.fullmatch(licence):
        return licence
    near = difflib.get_close_matches(re.sub(r"[\s_]+", "-", licence.lower()), sorted(_WORDS), n=1)
    hint = f"; did you mean {near[0]}?" if near else ", such as CC-BY-4.0 or apache-2.0"
    raise ValueError(f"license: {licence!r} is neither an SPDX id nor a licence word of the hub{hint}")


def front_matter(licence: str) -> dict[str, str]:
    """The keys of a card; a licence that the hub has no word for is `other` and has its name beside it."""
    word = _CALLED.get(licence.lower(), licence.lower())
    return {"license": word} if word in _WORDS else {"license": "other", "license_name": word}
