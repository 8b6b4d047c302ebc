"""One document, from the queue to its stored result."""
