"""The composition root: builds a gateway from its configuration and starts its components in order.

Start at `gateway/app.py` (`Gateway`): the ordered list of components; `components.py` builds them,
`gateway/routes.py` mounts their routes.
`gateway/embedded/` runs a gateway inside a Python program.
"""
