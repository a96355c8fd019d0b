"""The embedded engine: a model behind a paged KV pool, a radix cache and a continuous batch.

It knows nothing of the gateway: the two speak HTTP. Names are imported from their files (`engine.Engine`,
`request.SamplingParams`, …), so that whoever needs an error type alone does not load torch.
"""

import os

# Threads that wait for each other sleep instead of spinning; it must be said before torch is loaded. Beside
# one other busy process on two cores, a decode step of the bundled model takes 31 ms spinning, 8 without.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
