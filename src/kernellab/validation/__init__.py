"""Is the measuring itself right? Ways that are equal, or differ by what is known, measured again and again."""
