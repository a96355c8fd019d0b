"""From the configuration to the side that an engine takes."""

from radixway.config.engine import EngineConfig
from radixway.engine.disaggregation.arrivals import Arrivals
from radixway.engine.disaggregation.departures import Departures
from radixway.engine.disaggregation.identity import Identity
from radixway.engine.download import Progress
from radixway.engine.model import Model
from radixway.engine.pool import KVStore


def build_side(
    config: EngineConfig, model: Model, store: KVStore, progress: Progress
) -> Arrivals | Departures | None:
    """None for an engine that does both. A prefill engine listens from here on. Raises EngineError."""
    if config.disaggregation_mode == "null":
        return None
    progress("identifying weights", 0.0)
    identity = Identity.of(model, config.weight_version, config.kv_cache_dtype)
    timeout_s, local = config.disaggregation_timeout_s, config.disaggregation_transfer == "auto"
    if config.disaggregation_mode == "decode":
        return Arrivals(store, identity, timeout_s, local=local)
    departures = Departures(store, identity, timeout_s)
    host = config.disaggregation_bootstrap_host
    departures.listen(host, config.disaggregation_bootstrap_port, local=local)
    return departures
