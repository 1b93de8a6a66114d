"""`headwater demo`: the whole story on a throw-away installation, told by what really happens."""
