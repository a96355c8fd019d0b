"""Parts of the routers in `cluster/ray_router.py`: prefixes that replicas have seen, and their load.

Beside that module, not below it: Ray pickles a router's module by value, and all that lies in it.
"""
