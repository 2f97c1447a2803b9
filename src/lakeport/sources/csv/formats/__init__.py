"""Numbers and dates as countries write them: how texts are read so, and by which of them."""
