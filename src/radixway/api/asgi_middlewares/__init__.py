"""Starlette's kind of middleware around the whole gateway: classes built as `(app, *, router)`.

The Slime router's users extend it with these; what such a class did there it does here, and what it could
only attempt there (ask a worker twice, change the body) works.
"""

from radixway.api.asgi_middlewares.stack import SlimeRouter, wrap_application

__all__ = ["SlimeRouter", "wrap_application"]
