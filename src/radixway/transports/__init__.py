"""How a request reaches a worker."""
