"""*Requests*: the latest ones as a list to search, and each one's way through the gateway."""
