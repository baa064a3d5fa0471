"""What the events say of a cache: residency, chains, prefixes, hashes."""
