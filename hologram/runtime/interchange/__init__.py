"""Arrays that come from other libraries, and go to them."""
