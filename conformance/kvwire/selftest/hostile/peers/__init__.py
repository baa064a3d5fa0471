"""Those who attack, as child processes: ``python -m kvwire.selftest.hostile.peers.NAME ARGUMENT…``."""
