"""The tests of Outrider."""
