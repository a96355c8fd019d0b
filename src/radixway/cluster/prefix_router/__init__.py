"""What the routers of `cluster/ray_router.py` are made of: who has seen what, and who has what in hand.

Beside that module, not below it: Ray pickles a router's module by value, and all that lies in it.
"""
