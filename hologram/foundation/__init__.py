"""What everything stands on: dtypes, errors, settings, files that are kept, small containers."""
