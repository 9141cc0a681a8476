"""How sessions are stored.

`store` is what users call, `contract` is what a database owes it, and each database is one module.
"""
