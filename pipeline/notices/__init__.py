"""Messages to the outside: callbacks of requests and notices to reviewers. Off unless a setting says otherwise."""
