"""Running: requests become work units, workers carry them out, the journal keeps what they observed."""
