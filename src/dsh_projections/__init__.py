"""Readers of a session: what the model is sent, what the human sees, and more, each on its own."""
