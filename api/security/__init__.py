"""Who may do what over HTTP: hosts, origins, sessions, tokens, headers, sizes."""
