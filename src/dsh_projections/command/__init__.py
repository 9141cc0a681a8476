"""The command ``dsh-session``."""
