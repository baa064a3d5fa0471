"""What the records of one stream mean: incarnations, batches, gaps, answers, offers."""
