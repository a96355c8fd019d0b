"""What a request means: encoders, signals, decisions, the semantic cache and the guard.

Start at `decisions/` for how a rule chooses a model, at `semantics/guard/` for what may pass, at `cache/`
for answers used again.
"""
