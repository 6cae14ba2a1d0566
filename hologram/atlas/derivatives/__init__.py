"""Programs that compute how programs change: backwards, forwards, and where nothing is known."""
