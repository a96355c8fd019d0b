"""`/config/semantic/rules`: the rules that judge requests, seen, checked, tried, applied and taken back.

For the operator alone. What is applied stands in the file that `semantic.config` names.
"""

from radixway.api.rules.routes import semantic_routes

__all__ = ["semantic_routes"]
