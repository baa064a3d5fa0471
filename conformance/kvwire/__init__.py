"""kvwire: a harness that says, sentence by sentence of the standard, what a KV-cache event publisher keeps."""
