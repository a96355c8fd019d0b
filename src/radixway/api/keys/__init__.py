"""Keys, teams, users and budgets over HTTP: our own paths (`rest_routes.py`), and LiteLLM's
(`litellm_routes.py`)."""

from radixway.api.keys.litellm_routes import litellm_routes
from radixway.api.keys.rest_routes import key_routes, keys_off_routes

__all__ = ["key_routes", "keys_off_routes", "litellm_routes"]
