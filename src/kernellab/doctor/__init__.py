"""What is missing on this machine, and whether measuring works here."""
