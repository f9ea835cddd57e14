"""What is looked at when memory has run out."""
