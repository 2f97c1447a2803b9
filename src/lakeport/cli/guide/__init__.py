"""Help for users: `lakeport init` with its starter folders, and the documentation's pages."""
