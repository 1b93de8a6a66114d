"""Static analysis of users' scripts, which finds out from their text whether they keep state between records."""
