"""References from one session to another: URIs and mentions, and the bounded snapshot that they stand for."""
