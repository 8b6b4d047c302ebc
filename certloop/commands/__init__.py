"""One module per command. Modules import only typer at the top: the rest loads when the command runs."""
