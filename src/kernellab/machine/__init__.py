"""What this machine is: where things are kept, what it holds, what is missing."""
