"""Packet captures as traces: packets, TCP, ZMTP, and what goes over it, as records (docs/captures.md)."""
