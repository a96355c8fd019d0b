"""*Keys*: who may ask what, at which rate and cost: created, rotated, blocked and deleted at run time."""
