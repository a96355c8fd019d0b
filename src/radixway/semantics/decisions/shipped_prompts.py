"""The system prompts that ship."""

from __future__ import annotations

from radixway.bundled import read_toml
from radixway.core.config.semantic import BilingualText

SHIPPED = {name: BilingualText(**texts) for name, texts in read_toml("system_prompts.toml").items()}
"""By category."""
