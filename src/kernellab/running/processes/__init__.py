"""Starting, supervising and ending processes."""
