"""The rules: one file each, with one function `look(subject) -> Finding | None`; `findings` collects them."""
