"""A GPU on paper: occupancy, waves, roofline, prices; no torch."""
