"""The one radix tree: match, insert, split, lock, evict.

Generic over the key (text or packed token ids) and over the payload an edge carries.
"""
