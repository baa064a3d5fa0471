"""What is done with recordings besides judging one: many at once, without prompts, and whether a result follows."""
