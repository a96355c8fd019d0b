"""*Simulate*: policies compared on a trace, one's own or one that is made up."""
