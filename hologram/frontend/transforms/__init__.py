"""Forward mode and batches: functions followed operation by operation."""
