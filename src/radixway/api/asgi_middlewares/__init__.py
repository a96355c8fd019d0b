"""Starlette's kind of middleware around the whole gateway: classes built as `(app, *, router)`.

Slime, a framework for reinforcement learning, lets users extend its router with such classes. They run here
unchanged, and may also ask a worker twice or change the body.
"""

from radixway.api.asgi_middlewares.stack import SlimeRouter, wrap_application

__all__ = ["SlimeRouter", "wrap_application"]
