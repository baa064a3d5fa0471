"""What is on a stream, whether streams agree, and whether a consumer's assumptions fit: no verdict, a diagnosis."""
