"""The bench of the drafters: tasks with a reference and near misses, judged as the gate judges, scored by pattern."""
