"""What every package may use: the user's mistakes as one exception, whose code raised, cache folders, safe text."""
