"""The wire protocol: bytes to typed requests and back; frames, headers, one shape per API key. No
I/O."""
