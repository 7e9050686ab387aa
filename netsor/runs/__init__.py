"""Requests in parts: drawn by processes or any executor, stored as they finish, and reduced in order."""
