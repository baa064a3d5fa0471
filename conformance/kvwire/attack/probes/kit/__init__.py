"""What probes are made of."""
