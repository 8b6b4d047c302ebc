"""One module per revision, named ``vNNNN_what``."""
