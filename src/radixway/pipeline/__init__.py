"""The road a request takes: Request, Reply, Middleware, the onion, limits and retry."""
