"""`/config/semantic/rules`: the rules in the file that `semantic.config` names, edited by the operator."""

from radixway.api.rules.routes import semantic_routes

__all__ = ["semantic_routes"]
