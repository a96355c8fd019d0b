"""From the configuration to the side that an engine takes."""

from radixway.config.engine import EngineConfig
from radixway.engine.disaggregation.arrivals import DecodeKVManager
from radixway.engine.disaggregation.departures import PrefillKVManager
from radixway.engine.disaggregation.identity import KVIdentity
from radixway.engine.download import LoadProgress
from radixway.engine.model import TransformerModel
from radixway.engine.pool import KVStore


def build_transfer_manager(
    config: EngineConfig, model: TransformerModel, store: KVStore, progress: LoadProgress
) -> DecodeKVManager | PrefillKVManager | None:
    """None for an engine that does both. A prefill engine listens from here on. Raises EngineError."""
    if config.disaggregation_mode == "null":
        return None
    progress("identifying weights", 0.0)
    identity = KVIdentity.of_model(model, config.weight_version, config.kv_cache_dtype)
    timeout_s, local = config.disaggregation_timeout_s, config.disaggregation_transfer == "auto"
    if config.disaggregation_mode == "decode":
        return DecodeKVManager(store, identity, timeout_s, local=local)
    departures = PrefillKVManager(store, identity, timeout_s)
    host = config.disaggregation_bootstrap_host
    departures.start_listening(host, config.disaggregation_bootstrap_port, local=local)
    return departures
