"""What single programs would do with their arguments: by table, or by a function of their own."""
