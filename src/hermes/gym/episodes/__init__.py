"""One incident in a box: built, broken, handed to a responder, checked."""
