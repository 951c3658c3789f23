"""What an installation keeps: what may go (`gc`), and copies of all of it (`backup`)."""
