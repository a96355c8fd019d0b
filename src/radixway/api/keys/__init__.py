"""Keys, teams, users and budgets made at run time: our own paths (`rest_routes.py`), LiteLLM's
(`litellm_routes.py`), and the database behind both (`store/`)."""

from radixway.api.keys.litellm_routes import litellm_routes
from radixway.api.keys.rest_routes import key_routes, keys_off_routes

__all__ = ["key_routes", "keys_off_routes", "litellm_routes"]
