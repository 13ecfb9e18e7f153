"""What `wattiod` leaves: its journal, and what is derived from it."""
