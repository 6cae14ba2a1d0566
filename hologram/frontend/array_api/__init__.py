"""What the array API, and NumPy, offer beside operations: functions that make tensors, count, or ask about dtypes."""
