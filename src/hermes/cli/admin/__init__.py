"""Commands that set up, check and maintain this installation."""
