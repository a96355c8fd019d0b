"""The embedded engine: a model behind a paged KV pool, a radix cache and a continuous batch.

Start with `engine.Engine`. One step is `engine_core.EngineCore.step`: `Scheduler` chooses the work,
`ModelRunner` computes it, `sample_tokens` draws the next tokens. A KV page is allocated and freed by
`KVCacheManager` (`allocate_slots`, `free_request`), for the `Scheduler`, from `page_pool.PagePool`. Imports
go downward only: engine, engine_core, scheduler, kv_cache_manager, tiers and disaggregation, engine_request,
page_pool.

The engine knows nothing of the gateway: the two speak HTTP. Names are imported from their files
(`engine.Engine`, `sampling_params.SamplingParams`, …), so that an error type can be imported without loading
torch.

State, and the file that owns it:

- `kv_cache_manager.py`, `scheduler.py`: KV pages and their requests; pages move in `allocate_slots`,
  `insert_pages`, `lock_prefix`, `free_request` and `reset_prefix_cache`; `check()` recomputes all accounts
- `disaggregation/prefill_kv_manager.py`: KV that a decode engine will fetch; pages are read and moved under
  one lock, each transfer ends once
- `disaggregation/decode_kv_manager.py`: KV on its way to a decode engine; nothing is written once a
  transfer is cut, and only pages that came in every layer are used
"""

import os

# Threads that wait for each other sleep instead of spinning; it must be set before torch is loaded. Beside
# one other busy process on two cores, a decode step of the bundled model takes 31 ms spinning, 8 without.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
