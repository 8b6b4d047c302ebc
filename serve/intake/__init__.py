"""What is handed in: bytes checked, archives unpacked, references fetched, before anything is accepted."""
