"""`guard.jailbreak`: attacks on the prompt."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from radixway.config.base import ConfigSection
from radixway.config.guard.pii import OnError, Share


class JailbreakConfig(ConfigSection):
    """Attacks on the prompt, from the one who asks or in what tools and documents say."""

    enabled: bool = True
    """False: attacks are not looked for."""
    action: Literal["report", "block"] = "report"
    """What becomes of a request that attacks; `block` by default under a classic `prompt_guard`."""
    threshold: Share = 0.7
    """An attack that is less likely than this is none."""
    model: Path | None = None
    """A sequence classifier's directory, in place of the shipped head; patterns look beside it."""
    models_dir: Path | None = None
    """Where such models are looked for by their published names, in the published order."""
    on_error: OnError = "allow"
    """What becomes of a request that could not be read."""
