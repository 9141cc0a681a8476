"""Requests to model providers, made from a session's messages."""
