"""The embedded engine: a model behind a paged KV pool, a radix cache and a continuous batch.

It knows nothing of the gateway: the two speak HTTP.
"""
