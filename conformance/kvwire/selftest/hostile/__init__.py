"""Attacks on kvwire: publishers, replay sockets, adapters, files, signals, clients; and the bounds that are kept."""
