"""What a finding is, and how findings are ranked."""
