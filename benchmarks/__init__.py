"""How fast this is, as ratios within one run: `python -m benchmarks`. Not in the wheel."""
