"""PTX explained line by line."""
