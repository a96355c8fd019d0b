"""Which worker serves a request: registry, health, load ledger, selector, policies."""
