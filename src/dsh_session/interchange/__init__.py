"""Sessions as files: JSONL, plain or compressed, with packed rows of stream chunks, read strictly or leniently."""
