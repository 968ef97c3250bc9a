"""A failing trial as a script that needs torch alone."""
