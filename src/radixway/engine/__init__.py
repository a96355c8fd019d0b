"""The embedded engine: a model behind a paged KV pool, a radix cache and a continuous batch.

It knows nothing of the gateway: the two speak HTTP. Names are imported from their files (`engine.Engine`,
`request.SamplingParams`, …), so that whoever needs an error type alone does not load torch.

State, and the file that owns it:

- `kv_cache_manager.py`, `scheduler.py`: KV pages and their requests; pages move in `allocate_slots`,
  `insert_pages` and `free_request` only; `check()` recomputes all accounts
- `disaggregation/prefill_kv_manager.py`: KV that a decode engine will fetch; pages are read and moved under
  one lock, each transfer ends once
- `disaggregation/decode_kv_manager.py`: KV on its way to a decode engine; nothing is written once a
  transfer is cut, and only pages that came in every layer are used
"""

import os

# Threads that wait for each other sleep instead of spinning; it must be said before torch is loaded. Beside
# one other busy process on two cores, a decode step of the bundled model takes 31 ms spinning, 8 without.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
