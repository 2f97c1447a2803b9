"""The pages in a real browser: opened, clicked through, walked by keyboard, and looked at."""
