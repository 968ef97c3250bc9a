"""x"""
MAGIC = b"SQLite format 3\0"
def read(path): raise NotImplementedError
