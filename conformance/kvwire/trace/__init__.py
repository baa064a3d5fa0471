"""What was seen and done in a run, record by record."""
