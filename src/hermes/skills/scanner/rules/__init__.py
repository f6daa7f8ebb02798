"""What the scanner of foreign skills looks for, one file for each kind of finding."""
