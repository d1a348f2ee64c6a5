"""What the files of the API keys share, and what leaders and followers do.

They see ports only.
"""
