"""Reports: functions of a result stream, and of nothing else."""
