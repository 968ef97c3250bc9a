"""What a call does besides computing: what it compiles and tunes, allocates, copies and moves."""
