"""The probes: attacks that act, wait and write into the trace. They judge nothing."""
