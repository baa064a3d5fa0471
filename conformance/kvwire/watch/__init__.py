"""Beside publishers for weeks: what they send is judged as it comes, told, and counted for others to scrape."""
