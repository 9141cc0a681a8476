"""Search over what the human sees: words, the index, and snippets of what was found."""
