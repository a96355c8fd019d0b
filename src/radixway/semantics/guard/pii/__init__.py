"""Personal data in texts: what is recognised by its form, what is told by its context, and both together."""
