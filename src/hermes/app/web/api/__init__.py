"""What is behind the routes of the API."""
