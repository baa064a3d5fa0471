"""What events cost an engine, in the rows that the model's authors measured: `python -m kvwire_reference.bench`."""
