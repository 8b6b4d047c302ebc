"""``certloop evaluate DIR --labels labels.jsonl``: how well a folder of labelled files is read."""
