"""The numbers that a program was told, and the sizes that its model was given."""
