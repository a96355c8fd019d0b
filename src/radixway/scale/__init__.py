"""Many of us: what gateways in front of the same workers tell each other."""

from radixway.scale.load_sync import LoadSync, build_load_sync

__all__ = ["LoadSync", "build_load_sync"]
